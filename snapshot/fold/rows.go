package fold

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/feedctl/feedctl/feed"
)

// maxWhole is the largest body that is read into memory, in bytes.
const maxWhole = 256 << 10

// selectRows reads the body, TEXT or BLOB, as bytes.
const selectRows = `SELECT rowid, key, content_type, last_modified, content_id, headers,
	length(CAST(body AS BLOB)), CASE WHEN length(CAST(body AS BLOB)) <= ?1 THEN CAST(body AS BLOB) END
	FROM ` + table + ` WHERE key >= ?2 ORDER BY key`

// rows reads the rows of the table.
type rows struct {
	conn     *sqlite.Conn
	versions bool   // the keys are those of versions
	body     []byte // buffer
}

// readCache limits SQLite's cache to 512 KiB: each row is read once, so only the inner pages of
// the trees are needed again.
const readCache = "PRAGMA cache_size = -512"

func openRows(ctx context.Context, file string, versions bool) (*rows, error) {
	conn, err := sqlite.OpenConn(file, sqlite.OpenReadOnly)
	if err != nil {
		return nil, fmt.Errorf("open table: %w", err)
	}
	conn.SetInterrupt(ctx.Done())
	if err := sqlitex.ExecuteTransient(conn, readCache, nil); err != nil {
		return nil, errors.Join(fmt.Errorf("open table: %w", err), conn.Close())
	}
	return &rows{conn: conn, versions: versions}, nil
}

func (r *rows) close() error { return r.conn.Close() }

// errStop ends a query when the caller needs no more rows.
var errStop = errors.New("stop")

// A row is one row of the table.
type row struct {
	key    string
	place  place
	entity *feed.Entity // as in a snapshot; a large body is a Stream, any other is valid until the next row
}

// entities yields the entities of the rows in the order of their keys.
func (r *rows) entities() iter.Seq2[*feed.Entity, error] {
	return func(yield func(*feed.Entity, error) bool) {
		err := r.each("", func(row *row) error {
			if !yield(row.entity, nil) {
				return errStop
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStop) {
			yield(nil, err)
		}
	}
}

// each calls use with each row, in the order of the keys, beginning at the key from. It stops at
// the first error of use and returns it.
func (r *rows) each(from string, use func(*row) error) error {
	err := sqlitex.Execute(r.conn, selectRows, &sqlitex.ExecOptions{
		Args:       []any{maxWhole, from},
		ResultFunc: func(stmt *sqlite.Stmt) error { return r.row(stmt, use) },
	})
	if err != nil {
		return fmt.Errorf("read table: %w", err)
	}
	return nil
}

// row calls use with a row.
func (r *rows) row(stmt *sqlite.Stmt, use func(*row) error) (err error) {
	key := stmt.ColumnText(1)
	e := &feed.Entity{
		ContentLocation: feed.EncodeKey(key),
		ContentType:     stmt.ColumnText(2),
		ContentID:       stmt.ColumnText(4),
	}
	if r.versions {
		e.ContentLocation = versionedKey(key)
	}
	found := &row{key: key, entity: e}
	if e.LastModified, err = time.Parse(time.RFC3339, stmt.ColumnText(3)); err != nil {
		return fmt.Errorf("row of key %q: %w", e.Key(), err)
	}
	headers, at, err := cutPlace(stmt.ColumnText(5))
	if err == nil {
		found.place = at
		e.Header, err = parseHeaders(headers)
	}
	if err != nil {
		return fmt.Errorf("row of key %q: headers: %w", e.Key(), err)
	}
	size := stmt.ColumnInt64(6)
	if size <= maxWhole {
		r.body = slices.Grow(r.body[:0], int(size))[:size]
		stmt.ColumnBytes(7, r.body)
		e.Body = r.body
		return use(found)
	}
	blob, err := r.conn.OpenBlob("main", table, "body", stmt.ColumnInt64(0), false)
	if err != nil {
		return fmt.Errorf("row of key %q: %w", e.Key(), err)
	}
	e.Stream, e.Size = blob, size
	return errors.Join(use(found), blob.Close())
}

// parseHeaders reads a JSON object that maps names to arrays of values, and keeps its order.
func parseHeaders(text string) (fields []feed.Field, err error) {
	if text == "{}" {
		return nil, nil
	}
	d := json.NewDecoder(strings.NewReader(text))
	if _, err := d.Token(); err != nil { // {
		return nil, err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		var values []string
		if err := d.Decode(&values); err != nil {
			return nil, err
		}
		for _, value := range values {
			fields = append(fields, feed.Field{Name: fmt.Sprint(name), Value: value})
		}
	}
	return fields, nil
}
