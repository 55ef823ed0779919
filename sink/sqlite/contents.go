package sqlite

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/feedctl/feedctl/digest"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/internal/position"
)

// Contents holds the rows of a table and the position of its consumer at one moment, in one read
// transaction. It must be closed.
type Contents struct {
	conn  *sqlite.Conn
	name  string // for errors
	table string
	at    feed.Position
	read  rowReader
}

// OpenContents opens the table that s names for reading. A consumer that has the table open is not
// delayed. While the contents are open, the write-ahead log of the database grows.
func OpenContents(ctx context.Context, s sink.Spec) (_ *Contents, err error) {
	if err := s.CheckParams("table"); err != nil {
		return nil, err
	}
	c := &Contents{name: s.String(), table: cmp.Or(s.Params.Get("table"), DefaultTable)}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("read sink %s: %w", c.name, err), c.Close())
		}
	}()
	if err := checkTable(c.table); err != nil {
		return nil, err
	}
	if _, err := os.Stat(s.Path); err != nil { // SQLite's own error would be less clear
		return nil, err
	}
	if c.conn, err = sqlite.OpenConn(s.Path, sqlite.OpenReadOnly); err != nil {
		return nil, err
	}
	c.read.conn, c.read.table = c.conn, c.table
	c.conn.SetInterrupt(ctx.Done())
	c.conn.SetBusyTimeout(busyTimeout)
	if err := sqlitex.ExecuteTransient(c.conn, "BEGIN", nil); err != nil {
		return nil, err
	}
	found := false
	err = sqlitex.Execute(c.conn, position.SQLiteRead, &sqlitex.ExecOptions{ // begins the snapshot
		Args: []any{c.table},
		ResultFunc: func(row *sqlite.Stmt) error {
			found = true
			return json.Unmarshal([]byte(row.ColumnText(0)), &c.at)
		},
	})
	if err == nil && !found {
		err = errors.New("no consumer has a position for this table")
	}
	return c, err
}

// Position returns the position of the consumer.
func (c *Contents) Position() feed.Position { return c.at }

// About describes the rows.
func (c *Contents) About() sink.About { return sink.About{Ordered: true, Whole: true} }

// Close ends the transaction.
func (c *Contents) Close() error {
	if c.conn == nil {
		return nil
	}
	conn := c.conn
	c.conn = nil
	return conn.Close()
}

// Rows yields the rows with keys in [from, to), in the byte order of the keys. The range has no end
// if to is "".
func (c *Contents) Rows(_ context.Context, from, to string) iter.Seq2[sink.Row, error] {
	return func(yield func(sink.Row, error) bool) {
		query, args := fmt.Sprintf(selectRows, c.table)+" WHERE key COLLATE BINARY >= ?2", []any{sink.MaxInline, from}
		if to != "" {
			query, args = query+" AND key COLLATE BINARY < ?3", append(args, to)
		}
		err := sqlitex.ExecuteTransient(c.conn, query+" ORDER BY key COLLATE BINARY", &sqlitex.ExecOptions{
			Args: args,
			ResultFunc: func(s *sqlite.Stmt) error {
				row, err := c.read.row(s)
				if err == nil && !yield(row, nil) {
					err = errStop
				}
				return err
			},
		})
		if err != nil && !errors.Is(err, errStop) {
			yield(sink.Row{}, fmt.Errorf("read sink %s: %w", c.name, err))
		}
	}
}

// errStop ends a query when the caller needs no more rows.
var errStop = errors.New("stop")

// selectRows selects bodies, whether TEXT or BLOB, as bytes, except those of more than ?1 bytes,
// which are read by rowid.
const selectRows = `SELECT key, content_type, content_id, rowid, octet_length(body),
	CASE WHEN octet_length(body) <= ?1 THEN body END FROM "%s"`

// A rowReader reads rows of [selectRows].
type rowReader struct {
	conn  *sqlite.Conn
	table string
	sum   digest.Summer
	buf   []byte
}

func (r *rowReader) row(s *sqlite.Stmt) (sink.Row, error) {
	row := sink.Row{Key: s.ColumnText(0), ContentID: s.ColumnText(2)}
	size := s.ColumnInt64(4)
	r.sum.Begin(row.Key, s.ColumnText(1))
	if size <= sink.MaxInline {
		r.buf = slices.Grow(r.buf[:0], int(size))[:size]
		s.ColumnBytes(5, r.buf)
		_, _ = r.sum.Write(r.buf) // returns no error
		row.Sum = r.sum.Sum()
		return row, nil
	}
	blob, err := r.conn.OpenBlob("main", r.table, "body", s.ColumnInt64(3), false)
	if err == nil {
		_, err = io.Copy(&r.sum, blob)
		err = errors.Join(err, blob.Close())
	}
	if err != nil {
		return row, fmt.Errorf("row of key %q: %w", row.Key, err)
	}
	row.Sum = r.sum.Sum()
	return row, nil
}
