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

// lockWait is how long a sink waits for one that has just ended.
const lockWait = "1s"

// KeepAlive has a host that is gone noticed within half a minute, so that what it has
// locked is free again. It is for a transaction.
const KeepAlive = `SELECT set_config('tcp_keepalives_idle', '15', true),
	set_config('tcp_keepalives_interval', '5', true), set_config('tcp_keepalives_count', '3', true)`

// undisturbed has the server leave the idle holder of the lock alone, and limits how
// long it waits for the lock. Not every version has all of the settings.
const undisturbed = `SELECT set_config(name, value, true) FROM (VALUES
	('idle_in_transaction_session_timeout', '0'), ('transaction_timeout', '0'), ('statement_timeout', '0'), ('lock_timeout', '` + lockWait + `')
) AS settings (name, value) JOIN pg_catalog.pg_settings USING (name)`

// attended is KeepAlive and undisturbed for a session that holds the lock while no
// transaction is open.
const attended = `SELECT set_config('tcp_keepalives_idle', '15', false), set_config('tcp_keepalives_interval', '5', false),
	set_config('tcp_keepalives_count', '3', false), set_config('idle_session_timeout', '0', false)`

// lock takes the advisory lock, unless the sink has it. The session that writes holds it,
// outside of transactions. Through a pooler, such as PgBouncer, sessions are not the
// sink's own: there a second connection holds it, in a transaction that stays open.
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

// pooled reports whether the connection that writes leads to a pooler: the process that
// answers is not the one that the connection was told of.
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

// lockSession has the session that writes take the lock.
func (k *Keeper) lockSession(ctx context.Context) error {
	if err := k.Step(); err != nil {
		return err
	}
	b := &pgx.Batch{}
	b.Queue("BEGIN ISOLATION LEVEL READ COMMITTED")
	b.Queue(undisturbed)
	b.Queue("SELECT pg_advisory_lock(hashtextextended($1, 0))", k.lockName())
	b.Queue(attended)
	b.Queue("COMMIT")
	err := k.Writer.Conn.SendBatch(ctx, b).Close()
	if err == nil {
		return nil
	}
	if _, e := k.Writer.Conn.Exec(ctx, "ROLLBACK"); e != nil {
		_ = k.Writer.Close() // what is wrong with it is in err
	}
	return err
}

// hold has a connection of its own take the lock, for a transaction that stays open, so
// that the lock ends with the connection also behind a pooler.
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
		b.Queue(KeepAlive)
		b.Queue(undisturbed)
		b.Queue("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", k.lockName())
		err = k.holder.Conn.SendBatch(ctx, b).Close()
	}
	if err != nil {
		// What is not whole must not be taken for a lock.
		_ = k.holder.Close()
	}
	return err
}

func (k *Keeper) lockName() string { return position.PostgresLock(k.Schema, k.Table, k.Name) }
