package pgposition

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/internal/position"
)

// lock takes the advisory lock unless the sink has it. The lock is held by the session
// that writes, outside transactions. Through a pooler, such as PgBouncer, sessions are
// shared: then the lock is held by a second connection, in a transaction that stays open.
func (k *Keeper) lock(ctx context.Context) error {
	pooled, err := k.pooled(ctx)
	switch {
	case err != nil:
		return err
	case pooled:
		err = k.hold(ctx)
	case k.locked == k.Writer.Conn:
		return nil
	default:
		err = k.lockSession(ctx)
	}
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == "55P03" { // lock_not_available
		return fmt.Errorf("%w (%s)", sink.ErrLocked, k)
	}
	if err == nil {
		k.locked = k.Writer.Conn
	}
	return err
}

// pooled reports whether the connection that writes leads to a pooler: the server process
// that answers is not the one announced when the connection was opened.
func (k *Keeper) pooled(ctx context.Context) (bool, error) {
	if l := &k.Writer; l.pooled == nil {
		if err := k.Step(); err != nil {
			return false, err
		}
		var process uint32
		if err := l.Conn.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&process); err != nil {
			return false, err
		}
		pooled := process != l.Conn.PgConn().PID()
		l.pooled = &pooled
	}
	return *k.Writer.pooled, nil
}

func (k *Keeper) lockSession(ctx context.Context) error {
	if err := k.Step(); err != nil {
		return err
	}
	b := &pgx.Batch{}
	b.Queue("BEGIN ISOLATION LEVEL READ COMMITTED")
	b.Queue(position.PostgresUndisturbed)
	b.Queue("SELECT pg_advisory_lock(hashtextextended($1, 0))", k.lockName())
	b.Queue(position.PostgresAttended)
	b.Queue("COMMIT")
	err := k.Writer.Conn.SendBatch(ctx, b).Close()
	if err == nil {
		return nil
	}
	if _, e := k.Writer.Conn.Exec(ctx, "ROLLBACK"); e != nil {
		_ = k.Writer.Close() // err says why
	}
	return err
}

// hold takes the lock in a transaction that stays open on a second connection, so that
// the lock ends with the connection even through a pooler.
func (k *Keeper) hold(ctx context.Context) error {
	if k.holder.Conn != nil {
		if err := k.Step(); err != nil {
			return err
		}
		if _, err := k.holder.Conn.Exec(ctx, "SELECT 1"); err == nil {
			return nil
		}
		// The lock is lost with the transaction.
		if err := k.holder.Close(); err != nil && ctx.Err() != nil {
			return err
		}
	}
	if err := k.holder.Connect(ctx); err != nil {
		return err
	}
	err := k.Step()
	if err == nil {
		b := &pgx.Batch{}
		b.Queue("BEGIN ISOLATION LEVEL READ COMMITTED")
		b.Queue(position.PostgresKeepAlive)
		b.Queue(position.PostgresUndisturbed)
		b.Queue("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", k.lockName())
		err = k.holder.Conn.SendBatch(ctx, b).Close()
	}
	if err != nil {
		// An incomplete holder must not count as a lock.
		_ = k.holder.Close()
	}
	return err
}

func (k *Keeper) lockName() string { return position.PostgresLock(k.Schema, k.Table, k.Name) }
