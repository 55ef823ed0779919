// Package pgxsink is a sink for custom tables in PostgreSQL: a function writes the rows of each
// entity, in a pgx transaction that also moves the position in the feed. So each entity takes
// effect exactly once, even after crashes.
//
//	pool, err := pgxpool.New(ctx, url)
//	...
//	table := pgxsink.New(pool, "zones", func(ctx context.Context, tx pgx.Tx, e *feed.Entity) error {
//		if e.Operation == feed.Delete {
//			_, err := tx.Exec(ctx, "DELETE FROM zones WHERE id = $1", e.Key())
//			return err
//		}
//		_, err := tx.Exec(ctx, `INSERT INTO zones (id, zone) VALUES ($1, $2)
//			ON CONFLICT (id) DO UPDATE SET zone = excluded.zone`, e.Key(), string(e.Body))
//		return err
//	})
//	defer table.Close()
//	job := consumer.Job{Client: client, URL: feedURL, Sink: table}
//	_, err = job.Run(ctx)
//
// # The position
//
// The position is a row of the table feedctl_positions, with an empty table_name and the name of the
// consumer. The sink creates the table in the first schema of the search_path. Consumers of one
// database have different names. A second consumer with the same name, on any host, gets
// [sink.ErrLocked]: the session of the first holds an advisory lock. A consumer that has lost its
// lock without noticing can no longer commit once another has taken it.
//
// # The connection
//
// The sink opens one connection of its own, with the pool's configuration, including the hooks BeforeConnect
// and AfterConnect; it uses none of the pool's. A transaction begins with the first entity of a batch, with
// the default isolation level of the database; no transaction is open while the sink waits for entities.
// Through a pooler, such as PgBouncer in transaction mode, a second connection holds the lock; the pool then
// needs [pgx.QueryExecModeExec].
//
// # Errors
//
// An error of the function rolls the batch back and ends the job with that error, because in
// PostgreSQL an error aborts the transaction; to skip an entity, return nil for it. If the
// connection is lost between batches, the sink reconnects for up to 30 seconds. A connection
// lost within a batch, or a serialization failure, is an error: the job can be run again with
// the same sink and continues after the last commit.
package pgxsink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/sink/internal/content"
	"github.com/feedctl/feedctl/sink/internal/pgposition"
	"github.com/feedctl/feedctl/sink/internal/position"
	"github.com/feedctl/feedctl/sink/internal/session"
)

// A Func writes the rows of an entity. It must read e.Body or e.Stream before it returns and must
// not retain e or its body. It must not end the transaction, which belongs to the sink; it may
// use savepoints.
type Func func(ctx context.Context, tx pgx.Tx, e *feed.Entity) error

// New returns a sink for the consumer with the given name. The sink opens when its Position is
// called, which a [consumer.Job] does first; after an error, such as [sink.ErrLocked], Position may
// be called again. Closing the sink does not close the pool.
func New(pool *pgxpool.Pool, name string, apply Func) consumer.Sink {
	return session.New("postgres "+name, newTarget(pool, name, apply))
}

func newTarget(pool *pgxpool.Pool, name string, apply Func) *target {
	return &target{Keeper: pgposition.New("", "", name, nil, pgposition.Dialer(pool, nil)), apply: apply}
}

// A target runs one transaction per batch.
type target struct {
	pgposition.Keeper
	apply Func
	ready bool   // the table of positions exists
	tx    pgx.Tx // nil if none is open
}

// Recover rolls back uncommitted work, ensures that the table exists and the lock is held, and
// reads the position.
func (t *target) Recover(ctx context.Context) (at feed.Position, err error) {
	if err := t.Rollback(ctx); err != nil {
		_ = t.Writer.Close() // which ends the transaction
	}
	if !t.ready {
		if err := t.Retry(ctx, func() error { return t.prepare(ctx) }); err != nil {
			return at, err
		}
	}
	t.ready = true
	return t.Keeper.Recover(ctx)
}

func (t *target) prepare(ctx context.Context) error {
	if err := t.Writer.Connect(ctx); err != nil {
		return err
	}
	return pgx.BeginTxFunc(ctx, t.Writer.Conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		if err := t.SetUp(ctx, tx); err != nil {
			return err
		}
		return t.Enter(ctx, tx)
	})
}

// Begin does nothing: the first Apply, or Commit, begins the transaction.
func (t *target) Begin(context.Context) error { return nil }

// begin begins the transaction of the batch. It reconnects if the connection has been lost since
// the previous batch.
func (t *target) begin(ctx context.Context) error {
	if t.tx != nil {
		return nil
	}
	return t.Retry(ctx, func() (err error) {
		if err = t.Connect(ctx); err == nil {
			err = t.Step()
		}
		if err == nil {
			t.tx, err = t.Writer.Conn.Begin(ctx)
		}
		if err == nil {
			_, err = t.tx.Exec(ctx, position.PostgresKeepAlive)
		}
		if err != nil {
			t.tx = nil
			_ = t.Writer.Close() // err says why
		}
		return err
	})
}

func (t *target) Apply(ctx context.Context, e *feed.Entity) error {
	if err := t.begin(ctx); err != nil {
		return err
	}
	if err := t.Step(); err != nil {
		return err
	}
	return t.apply(ctx, transaction{t.tx}, content.Exact(e))
}

func (t *target) Commit(ctx context.Context, at feed.Position) error {
	text, err := json.Marshal(at)
	if err != nil {
		return err
	}
	if err := t.begin(ctx); err != nil {
		return err
	}
	if err := t.Step(); err != nil {
		return err
	}
	sql, args := t.Move(string(text))
	tag, err := t.tx.Exec(ctx, sql, args...)
	if err == nil {
		err = pgposition.Moved(tag)
	}
	if err != nil {
		return fmt.Errorf("move position: %w", err)
	}
	if err := t.Step(); err != nil {
		return err
	}
	if err := t.tx.Commit(ctx); err != nil {
		return err
	}
	t.tx = nil
	t.Done()
	return nil
}

func (t *target) Rollback(ctx context.Context) error {
	if t.tx == nil {
		return nil
	}
	tx := t.tx
	t.tx = nil
	if err := tx.Rollback(ctx); err != nil && !errors.Is(err, pgx.ErrTxClosed) {
		return err
	}
	return nil
}

// A transaction is the sink's transaction as the user's function sees it.
type transaction struct{ pgx.Tx }

var errEnds = errors.New("the sink ends the transaction itself, together with the position")

func (transaction) Commit(context.Context) error   { return errEnds }
func (transaction) Rollback(context.Context) error { return errEnds }
