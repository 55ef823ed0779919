package reconcile

import (
	"iter"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/feedctl/feedctl/digest"
	"github.com/feedctl/feedctl/sink"
)

// A mend is what a repair has to do for a key.
type mend struct {
	want
	was *sink.Row // nil: none
}

// addMend records the current row of a key, and what a repair has to replace it with.
func (s *scratch) addMend(w want, was *sink.Row) error {
	w.bind(s.expect)
	row := sink.Row{}
	if was != nil {
		row = *was
	}
	s.expect.BindBool(7, was != nil)
	s.expect.BindBytes(8, row.Sum[:])
	s.expect.BindText(9, row.ContentID)
	s.expect.BindText(10, row.Version)
	return exec(s.expect)
}

func readMend(s *sqlite.Stmt) mend {
	m := mend{want: readWant(s)}
	if s.ColumnBool(6) {
		m.was = &sink.Row{Key: m.key, ContentID: s.ColumnText(8), Version: s.ColumnText(9)}
		s.ColumnBytes(7, m.was.Sum[:])
	}
	return m
}

const selectMends = `SELECT key, state, sum, id, page, offset, existed, was_sum, was_id, was_version FROM mends`

// mends yields what a repair has to do for keys in a range: first for the keys to write, in the order of
// their places in the feed, and then for the keys to delete.
func (s *scratch) mends(of digest.Range) iter.Seq2[mend, error] {
	return query(s, selectMends, of, "state, page, offset, key", readMend)
}

// mended returns the smallest range that contains all keys that a repair changes, and how many of
// them it deletes.
func (s *scratch) mended() (of digest.Range, deletes int64, err error) {
	err = sqlitex.ExecuteTransient(s.conn, "SELECT min(key), max(key), count(*) FILTER (WHERE state = ?1) FROM mends", &sqlitex.ExecOptions{
		Args: []any{int64(deleted)},
		ResultFunc: func(row *sqlite.Stmt) error {
			of.From, of.To, deletes = columnText(row, 0), columnText(row, 1)+"\x00", row.ColumnInt64(2)
			return nil
		},
	})
	return of, deletes, err
}
