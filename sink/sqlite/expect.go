package sqlite

import (
	"context"
	"fmt"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/feedctl/feedctl/sink"
)

// Expect returns a [*sink.ChangedError] unless the row of the key is still equal to the given one; nil
// means that there must be no row. After Expect, no one else can write to the database until the batch
// ends.
func (t *target) Expect(_ context.Context, key string, was *sink.Row) error {
	if err := t.beginOnce(); err != nil {
		return err
	}
	read := rowReader{conn: t.conn, table: t.table}
	var is *sink.Row
	err := sqlitex.Execute(t.conn, fmt.Sprintf(selectRows, t.table)+" WHERE key = ?2", &sqlitex.ExecOptions{
		Args: []any{sink.MaxInline, key},
		ResultFunc: func(s *sqlite.Stmt) error {
			row, err := read.row(s)
			is = &row
			return err
		},
	})
	if err != nil {
		return err
	}
	if (is == nil) != (was == nil) || is != nil && *is != *was {
		return &sink.ChangedError{Keys: []string{key}}
	}
	return nil
}
