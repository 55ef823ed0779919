package reconcile

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/feedctl/feedctl/digest"
	"github.com/feedctl/feedctl/sink"
)

// A scratch is a temporary database for data that may not fit into memory. The operating system removes its
// file even if the process is killed.
type scratch struct {
	conn                 *sqlite.Conn
	addRow, note, expect *sqlite.Stmt
}

// The tables: rows of a sink that are in another order; the keys that occur in the feed between the
// digest and the sink; and what a repair has to do.
const tables = `
CREATE TABLE held (key BLOB PRIMARY KEY, sum BLOB NOT NULL, id TEXT NOT NULL, version TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE later (key BLOB PRIMARY KEY, state INTEGER NOT NULL, sum BLOB NOT NULL, id TEXT NOT NULL,
	page TEXT NOT NULL, offset INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE mends (key BLOB PRIMARY KEY, state INTEGER NOT NULL, sum BLOB NOT NULL, id TEXT NOT NULL,
	page TEXT NOT NULL, offset INTEGER NOT NULL,
	existed INTEGER NOT NULL, was_sum BLOB NOT NULL, was_id TEXT NOT NULL, was_version TEXT NOT NULL) WITHOUT ROWID;
CREATE INDEX mends_by_place ON mends (state, page, offset, key);`

// cacheKiB is small because Go's memory limit does not include the cache.
const cacheKiB = 2 << 10

func newScratch(ctx context.Context) (_ *scratch, err error) {
	s := &scratch{}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("open temporary database: %w", err), s.close())
		}
	}()
	if s.conn, err = sqlite.OpenConn("", sqlite.OpenReadWrite, sqlite.OpenCreate); err != nil {
		return nil, err
	}
	s.conn.SetInterrupt(ctx.Done())
	for _, pragma := range []string{"journal_mode = OFF", "synchronous = OFF", "locking_mode = EXCLUSIVE", fmt.Sprintf("cache_size = -%d", cacheKiB)} {
		if err := sqlitex.ExecuteTransient(s.conn, "PRAGMA "+pragma, nil); err != nil {
			return nil, err
		}
	}
	if err := sqlitex.ExecuteScript(s.conn, tables, nil); err != nil {
		return nil, err
	}
	for statement, text := range map[**sqlite.Stmt]string{
		&s.addRow: "INSERT OR REPLACE INTO held VALUES (?1, ?2, ?3, ?4)",
		&s.note:   "INSERT OR REPLACE INTO later VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
		&s.expect: "INSERT OR REPLACE INTO mends VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
	} {
		if *statement, err = s.conn.Prepare(text); err != nil {
			return nil, err
		}
	}
	return s, sqlitex.ExecuteTransient(s.conn, "BEGIN", nil) // never committed: that would be slower
}

func (s *scratch) close() error {
	if s.conn == nil {
		return nil
	}
	conn := s.conn
	s.conn = nil
	return conn.Close()
}

// A state is what the sink must have for a key, as far as it is known.
type state int

const (
	put     state = iota // an entity with this sum
	patched              // an entity with this Content-ID, whose sum is not known
	deleted              // nothing
)

// A want is what the sink must have for a key.
type want struct {
	key   string
	state state
	sum   digest.Sum
	id    string // Content-ID
	// Where the entity is: URL of the page and offset in it; page "" if it is not known.
	page   string
	offset int64
}

func exec(s *sqlite.Stmt) error {
	_, err := s.Step()
	return errors.Join(err, s.Reset())
}

func (w *want) bind(s *sqlite.Stmt) {
	s.BindBytes(1, []byte(w.key))
	s.BindInt64(2, int64(w.state))
	s.BindBytes(3, w.sum[:])
	s.BindText(4, w.id)
	s.BindText(5, w.page)
	s.BindInt64(6, w.offset)
}

func readWant(s *sqlite.Stmt) (w want) {
	w.key = columnText(s, 0)
	w.state = state(s.ColumnInt64(1))
	s.ColumnBytes(2, w.sum[:])
	w.id, w.page, w.offset = s.ColumnText(3), s.ColumnText(4), s.ColumnInt64(5)
	return w
}

// columnText returns a BLOB as a string.
func columnText(s *sqlite.Stmt, column int) string {
	b := make([]byte, s.ColumnLen(column))
	s.ColumnBytes(column, b)
	return string(b)
}

// setBetween records what the feed has for a key after the position of the digest.
func (s *scratch) setBetween(w want) error {
	w.bind(s.note)
	return exec(s.note)
}

func (s *scratch) count(table string) (n int64, err error) {
	err = sqlitex.ExecuteTransient(s.conn, "SELECT count(*) FROM "+table, &sqlitex.ExecOptions{
		ResultFunc: func(row *sqlite.Stmt) error { n = row.ColumnInt64(0); return nil },
	})
	return n, err
}

// errStop ends a query whose caller stops iterating.
var errStop = errors.New("stop")

// query yields the result of read for each row of a query that is limited to keys in a range.
func query[T any](s *scratch, what string, r digest.Range, order string, read func(*sqlite.Stmt) T) iter.Seq2[T, error] {
	text, args := what+" WHERE key >= ?1", []any{[]byte(r.From)}
	if r.To != "" {
		text, args = text+" AND key < ?2", append(args, []byte(r.To))
	}
	return func(yield func(T, error) bool) {
		err := sqlitex.ExecuteTransient(s.conn, text+" ORDER BY "+order, &sqlitex.ExecOptions{
			Args: args,
			ResultFunc: func(row *sqlite.Stmt) error {
				if !yield(read(row), nil) {
					return errStop
				}
				return nil
			},
		})
		if err != nil && !errors.Is(err, errStop) {
			var none T
			yield(none, err)
		}
	}
}

// between yields, for the keys in a range, what the feed has after the position of the digest.
func (s *scratch) between(r digest.Range) iter.Seq2[want, error] {
	return query(s, "SELECT key, state, sum, id, page, offset FROM later", r, "key", readWant)
}

// sort copies the rows of contents into a table, which keeps them in order.
func (s *scratch) sort(ctx context.Context, contents Contents, all digest.Range) error {
	if err := sqlitex.ExecuteTransient(s.conn, "DELETE FROM held", nil); err != nil {
		return err
	}
	for row, err := range contents.Rows(ctx, all.From, all.To) {
		if err != nil {
			return err
		}
		if !all.Contains(row.Key) {
			continue
		}
		s.addRow.BindBytes(1, []byte(row.Key))
		s.addRow.BindBytes(2, row.Sum[:])
		s.addRow.BindText(3, row.ContentID)
		s.addRow.BindText(4, row.Version)
		if err := exec(s.addRow); err != nil {
			return err
		}
	}
	return nil
}

// sorted returns contents whose rows are those that sort has copied.
func (s *scratch) sorted(contents Contents) Contents { return &sortedContents{contents, s} }

type sortedContents struct {
	Contents
	scratch *scratch
}

func (c *sortedContents) Rows(_ context.Context, from, to string) iter.Seq2[sink.Row, error] {
	return query(c.scratch, "SELECT key, sum, id, version FROM held", digest.Range{From: from, To: to}, "key", func(s *sqlite.Stmt) sink.Row {
		row := sink.Row{Key: columnText(s, 0), ContentID: s.ColumnText(2), Version: s.ColumnText(3)}
		s.ColumnBytes(1, row.Sum[:])
		return row
	})
}
