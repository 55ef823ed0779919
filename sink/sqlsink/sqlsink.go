// Package sqlsink is a sink for custom tables with database/sql: a function writes the rows of
// each entity, in a transaction that also updates the position in the feed. Each entity thus takes
// effect exactly once, even after crashes.
//
//	db, err := sql.Open("sqlite", "zones.db?_pragma=busy_timeout(10000)")
//	...
//	table := sqlsink.New(db, "zones", func(ctx context.Context, tx *sql.Tx, e *feed.Entity) error {
//		if e.Operation == feed.Delete {
//			_, err := tx.ExecContext(ctx, "DELETE FROM zones WHERE id = ?", e.Key())
//			return err
//		}
//		_, err := tx.ExecContext(ctx, `INSERT INTO zones (id, zone) VALUES (?, ?)
//			ON CONFLICT (id) DO UPDATE SET zone = excluded.zone`, e.Key(), string(e.Body))
//		return err
//	})
//	defer table.Close()
//	job := consumer.Job{Client: client, URL: feedURL, Sink: table}
//	_, err = job.Run(ctx)
//
// # Databases
//
// The sink detects the database. It uses a lock that ends with the process:
//
//   - SQLite, with any driver that takes parameters as ?1. The lock is on a file next to the
//     database, FILE.own-NAME.lock; an in-memory database needs none. How commits are synced and
//     how long to wait for other writers are settings of the connection: use synchronous=FULL
//     (SQLite's default) and a busy_timeout.
//   - PostgreSQL 14 or newer, with any driver that takes parameters as $1 and whose errors have a
//     method SQLState() string, such as pgx/stdlib. The lock is a session-level advisory lock,
//     so a pooler such as PgBouncer must be in session mode. With pgx itself use package
//     pgxsink, which also reconnects.
//
// # The position
//
// The position is a row of the table feedctl_positions, which the sink creates: in PostgreSQL, in
// the first schema of the search_path. Consumers of one database have different names. A second
// consumer with the same name gets [sink.ErrLocked]. In PostgreSQL, a consumer that has lost its
// lock without noticing can no longer commit once another has taken it.
//
// # The connection
//
// The sink keeps one connection of the pool while it is open. A transaction begins with the
// first entity of a batch; there is none while the sink waits for entities.
//
// # Errors
//
// An error from the function rolls the batch back and ends the job, as does the loss of the
// connection. To skip an entity, return nil for it. The job can be run again with the same sink and
// continues after the last commit.
package sqlsink

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/internal/content"
	"github.com/feedctl/feedctl/sink/internal/session"
)

// A Func writes the rows of an entity. It must read e.Body or e.Stream before it returns and must
// not retain e or its body. It must not end the transaction, which belongs to the sink.
type Func func(ctx context.Context, tx *sql.Tx, e *feed.Entity) error

// New returns a sink for the consumer with the given name: a letter or digit, then up to 63
// letters, digits, dots, underscores and hyphens. The sink is opened by its Position method, which
// a [consumer.Job] calls first; after an error, such as [sink.ErrLocked], Position may be called
// again. Closing the sink does not close db.
func New(db *sql.DB, name string, apply Func) consumer.Sink {
	return session.New("database "+name, &target{db: db, name: name, apply: apply})
}

// A target is the state of a sink. It runs one transaction per batch.
type target struct {
	db     *sql.DB
	name   string
	apply  Func
	before func() error // for tests: called before each request to the database

	conn    *sql.Conn // nil if the sink is not connected
	backend backend   // of conn
	tx      *sql.Tx   // nil outside a transaction
}

// A backend stores the position of a consumer in one kind of database.
type backend interface {
	// open creates the table and the row, takes the lock and returns the position.
	open(ctx context.Context, conn *sql.Conn, name string, step func() error) (position string, err error)
	// begin is called at the start of a transaction.
	begin(ctx context.Context, tx *sql.Tx) error
	// move updates the position; done is called after the commit.
	move(ctx context.Context, tx *sql.Tx, position string) (sql.Result, error)
	done()
	// close releases the lock and the connection.
	close(conn *sql.Conn) error
}

var consumerName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

func (t *target) step() error {
	if t.before == nil {
		return nil
	}
	return t.before()
}

// Recover rolls back uncommitted work, takes the lock, and reads the position. It opens a new
// connection, because the previous one failed.
func (t *target) Recover(ctx context.Context) (at feed.Position, err error) {
	if !consumerName.MatchString(t.name) {
		return at, fmt.Errorf("%w: name %q: want a letter or digit, then up to 63 letters, digits, dots, underscores and hyphens", sink.ErrSpec, t.name)
	}
	_ = t.Close() // the error of the connection has been reported
	if t.conn, err = t.db.Conn(ctx); err != nil {
		return at, err
	}
	if t.backend, err = detect(ctx, t.conn); err != nil {
		return at, errors.Join(err, t.Close())
	}
	text, err := t.backend.open(ctx, t.conn, t.name, t.step)
	if err != nil {
		return at, errors.Join(err, t.Close())
	}
	if err := json.Unmarshal([]byte(text), &at); err != nil {
		return at, errors.Join(fmt.Errorf("read position: %w", err), t.Close())
	}
	return at, nil
}

func detect(ctx context.Context, conn *sql.Conn) (backend, error) {
	var version string
	lite := conn.QueryRowContext(ctx, "SELECT sqlite_version()").Scan(&version)
	if lite == nil {
		return &sqlite{}, nil
	}
	if err := conn.QueryRowContext(ctx, "SELECT current_setting('server_version_num')").Scan(&version); err != nil {
		return nil, fmt.Errorf("the database is neither SQLite (%w) nor PostgreSQL (%w)", lite, err)
	}
	return newPostgres(), nil
}

// Begin does nothing: the first Apply, or Commit, begins the transaction.
func (t *target) Begin(context.Context) error { return nil }

func (t *target) begin(ctx context.Context) error {
	if t.tx != nil {
		return nil
	}
	if err := t.step(); err != nil {
		return err
	}
	// With ctx itself, database/sql would roll back the transaction at the end of ctx, but the
	// batch may still be committed after that.
	tx, err := t.conn.BeginTx(context.WithoutCancel(ctx), nil)
	if err != nil {
		return fmt.Errorf("begin transaction: %w", err)
	}
	t.tx = tx
	return t.backend.begin(ctx, tx)
}

func (t *target) Apply(ctx context.Context, e *feed.Entity) error {
	if err := t.begin(ctx); err != nil {
		return err
	}
	if err := t.step(); err != nil {
		return err
	}
	return t.apply(ctx, t.tx, content.Exact(e))
}

func (t *target) Commit(ctx context.Context, at feed.Position) error {
	text, err := json.Marshal(at)
	if err != nil {
		return err
	}
	if err := t.begin(ctx); err != nil {
		return err
	}
	if err := t.step(); err != nil {
		return err
	}
	moved, err := t.backend.move(ctx, t.tx, string(text))
	if err != nil {
		return fmt.Errorf("move position: %w", err)
	}
	if n, err := moved.RowsAffected(); err != nil || n != 1 {
		return errors.Join(fmt.Errorf("the position is not the one that this consumer wrote: %w", sink.ErrLocked), err)
	}
	if err := t.step(); err != nil {
		return err
	}
	if err := t.tx.Commit(); err != nil {
		return err
	}
	t.tx = nil
	t.backend.done()
	return nil
}

func (t *target) Rollback(context.Context) error {
	if t.tx == nil {
		return nil
	}
	tx := t.tx
	t.tx = nil
	if err := tx.Rollback(); err != nil && !errors.Is(err, sql.ErrTxDone) {
		return err
	}
	return nil
}

func (t *target) Close() error {
	if t.conn == nil {
		return nil
	}
	err := t.Rollback(context.Background())
	if t.backend != nil {
		err = errors.Join(err, t.backend.close(t.conn))
	} else {
		err = errors.Join(err, t.conn.Close())
	}
	t.conn, t.backend = nil, nil
	return err
}
