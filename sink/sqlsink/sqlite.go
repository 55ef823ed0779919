package sqlsink

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/feedctl/feedctl/sink/internal/durable"
	"github.com/feedctl/feedctl/sink/internal/position"
)

// A sqlite is the backend for SQLite. Each consumer has a row and a lock file.
type sqlite struct {
	row  string
	lock *durable.File // nil for a database in memory
}

func (s *sqlite) open(ctx context.Context, conn *sql.Conn, name string, step func() error) (at string, err error) {
	s.row = "own-" + name
	var file string
	if err := conn.QueryRowContext(ctx, "SELECT file FROM pragma_database_list WHERE name = 'main'").Scan(&file); err != nil {
		return "", fmt.Errorf("find the file of the database: %w", err)
	}
	if file != "" {
		if s.lock, err = position.LockSQLite(file, s.row); err != nil {
			return "", err
		}
	}
	for _, statement := range []string{position.SQLiteCreate, position.SQLiteEnter} {
		if err := step(); err != nil {
			return "", err
		}
		args := []any{s.row}
		if statement == position.SQLiteCreate {
			args = nil
		}
		if _, err := conn.ExecContext(ctx, statement, args...); err != nil {
			return "", err
		}
	}
	err = conn.QueryRowContext(ctx, position.SQLiteRead, s.row).Scan(&at)
	return at, err
}

// begin waits for other writers. If it did not, and the user's first statement was a SELECT, SQLite
// would not wait for them later.
func (s *sqlite) begin(ctx context.Context, tx *sql.Tx) error {
	if _, err := tx.ExecContext(ctx, "DELETE FROM feedctl_positions WHERE 0"); err != nil {
		return fmt.Errorf("begin to write (busy_timeout limits the wait for other writers): %w", err)
	}
	return nil
}

func (s *sqlite) move(ctx context.Context, tx *sql.Tx, at string) (sql.Result, error) {
	return tx.ExecContext(ctx, position.SQLiteMove, s.row, at)
}

func (s *sqlite) done() {}

func (s *sqlite) close(conn *sql.Conn) error {
	err := conn.Close()
	if s.lock != nil {
		err = errors.Join(err, s.lock.Close())
	}
	return err
}
