package postgres

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/storage"
)

// Numbers of entries in a page of a listing. The first page is short, since many callers need only
// one entry.
const (
	firstPage   = 16
	largestPage = 1024
)

// list yields the entries of a listing, which it reads by calling page for each page.
func list(ctx context.Context, prefix, after string, page func(after string, limit int) ([]storage.Entry, error)) iter.Seq2[storage.Entry, error] {
	return func(yield func(storage.Entry, error) bool) {
		fail := func(err error) { yield(storage.Entry{}, fmt.Errorf("list %q: %w", prefix, err)) }
		if err := storage.CheckPrefix(prefix); err != nil {
			fail(err)
			return
		}
		after := comparable(after)
		for limit := firstPage; ; limit = min(8*limit, largestPage) {
			var entries []storage.Entry
			err := ctx.Err()
			if err == nil {
				entries, err = page(after, limit)
			}
			if err != nil {
				fail(err)
				return
			}
			for _, entry := range entries {
				if err := ctx.Err(); err != nil {
					fail(err)
					return
				}
				if !yield(entry, nil) {
					return
				}
				after = entry.Key
			}
			if len(entries) < limit {
				return
			}
		}
	}
}

// comparable returns valid text that sorts among the keys as the given string does. Keys are
// printable ASCII, but the string may hold any bytes.
func comparable(after string) string {
	for i := range len(after) {
		switch c := after[i]; {
		case c == 0:
			return after[:i]
		case c > '~':
			return after[:i] + strings.Repeat("~", storage.MaxKey)
		}
	}
	return after
}

// names yields the names in a listing, which it reads by calling page for each page. The entries of
// a page are the first key of each name, and keys without a name.
func names(ctx context.Context, prefix, after string, page func(after string, limit int) ([]storage.Entry, error)) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if err := storage.CheckNames(prefix); err != nil {
			yield("", fmt.Errorf("list names: %w", err))
			return
		}
		beyond := func(last string, limit int) ([]storage.Entry, error) {
			if name, ok := storage.NameIn(prefix, last); ok {
				last = storage.AfterName(prefix, name)
			}
			return page(last, limit)
		}
		for entry, err := range list(ctx, prefix, storage.AfterName(prefix, after), beyond) {
			name, ok := storage.NameIn(prefix, entry.Key)
			if err == nil && !ok {
				continue
			}
			if !yield(name, err) {
				return
			}
		}
	}
}

// list reads one page of a listing with the given statement.
func (t tables) list(ctx context.Context, db database, statement, prefix, after string, limit int) ([]storage.Entry, error) {
	rows, err := db.Query(ctx, statement, mode, prefix, after, limit)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (e storage.Entry, err error) {
		err = row.Scan(&e.Key, &e.Size, &e.Modified)
		e.Modified = e.Modified.UTC()
		return e, err
	})
}
