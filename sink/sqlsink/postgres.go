package sqlsink

import (
	"context"
	"crypto/rand"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"

	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/internal/position"
)

// A postgres is the backend for PostgreSQL. Each consumer has a row and a session-level advisory
// lock. The row names the owner of the lock, so a consumer that has lost the lock to another can no
// longer commit.
type postgres struct {
	table   string // of positions
	name    string
	owner   string
	commits int64
}

func newPostgres() *postgres { return &postgres{owner: rand.Text()} }

func (p *postgres) sql(statement string) string { return fmt.Sprintf(statement, p.table) }

func (p *postgres) open(ctx context.Context, conn *sql.Conn, name string, step func() error) (at string, err error) {
	p.name = name
	var schema sql.NullString
	if err := conn.QueryRowContext(ctx, "SELECT current_schema()").Scan(&schema); err != nil {
		return "", err
	}
	if !schema.Valid {
		return "", errors.New("the search_path contains no existing schema: name one in the URL, as in search_path=SCHEMA")
	}
	p.table = `"` + strings.ReplaceAll(schema.String, `"`, `""`) + `".` + position.Table
	lock := position.PostgresLock(schema.String, "", name)
	err = p.transact(ctx, conn, step, [][]any{
		{position.PostgresSetUp}, {p.sql(position.PostgresCreate)}, {p.sql(position.PostgresEnter), "", name},
	})
	if err == nil {
		err = p.transact(ctx, conn, step, [][]any{
			{position.PostgresUndisturbed}, {"SELECT pg_advisory_lock(hashtextextended($1, 0))", lock}, {position.PostgresAttended},
		})
	}
	if state, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err); ok && state.SQLState() == "55P03" { // lock_not_available
		err = fmt.Errorf("%w (name %q)", sink.ErrLocked, name)
	}
	if err == nil {
		err = step()
	}
	if err == nil {
		err = conn.QueryRowContext(ctx, p.sql(position.PostgresTake), "", name, p.owner).Scan(&at, &p.commits)
	}
	return at, err
}

// transact executes statements, each with its arguments, in a transaction.
func (p *postgres) transact(ctx context.Context, conn *sql.Conn, step func() error, statements [][]any) error {
	if err := step(); err != nil {
		return err
	}
	tx, err := conn.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // does nothing after Commit; after an error, that error is returned
	for _, s := range statements {
		if _, err := tx.ExecContext(ctx, s[0].(string), s[1:]...); err != nil {
			return err
		}
	}
	return tx.Commit()
}

func (p *postgres) begin(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, position.PostgresKeepAlive)
	return err
}

func (p *postgres) move(ctx context.Context, tx *sql.Tx, at string) (sql.Result, error) {
	return tx.ExecContext(ctx, p.sql(position.PostgresMove), "", p.name, p.owner, p.commits, at)
}

func (p *postgres) done() { p.commits++ }

// close ends the session, since a session that holds the lock must not be put back into the pool.
func (p *postgres) close(conn *sql.Conn) error {
	err := conn.Raw(func(any) error { return driver.ErrBadConn })
	if err = errors.Join(err, conn.Close()); errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) {
		return nil
	}
	return err
}
