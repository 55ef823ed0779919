package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/feedctl/feedctl/sink"
)

// Standings reads the positions of consumers in the database that s names: those of one table, or
// of all tables. It creates nothing, and works while consumers have their sinks open.
func Standings(ctx context.Context, s sink.Spec) (found []sink.Standing, err error) {
	if err := s.CheckParams("table"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("read sink %s: %w", s.String(), err)
		}
	}()
	if _, err := os.Stat(s.Path); err != nil { // SQLite's own error would be less clear
		return nil, err
	}
	conn, err := sqlite.OpenConn(s.Path, sqlite.OpenReadOnly)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	conn.SetInterrupt(ctx.Done())
	conn.SetBusyTimeout(busyTimeout)
	err = sqlitex.Execute(conn, "SELECT name, position FROM feedctl_positions WHERE ?1 IN ('', name) ORDER BY name", &sqlitex.ExecOptions{
		Args: []any{s.Params.Get("table")},
		ResultFunc: func(row *sqlite.Stmt) error {
			one := sink.Standing{Name: row.ColumnText(0)}
			err := json.Unmarshal([]byte(row.ColumnText(1)), &one.Position)
			found = append(found, one)
			return err
		},
	})
	return found, err
}
