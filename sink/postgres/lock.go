package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/feedctl/feedctl/sink"
)

const (
	// lockWait is how long a sink waits for one that has just ended.
	lockWait = "1s"
	// maxAge of the connection that writes. It has a temporary table, which the server
	// cannot vacuum, and which must not become old in terms of transactions.
	maxAge = time.Hour
	// closeWait is how long to wait for the server at the end.
	closeWait = 5 * time.Second
)

// keepAlive has a host that is gone noticed within half a minute, so that what it has
// locked is free again. It is for a transaction.
const keepAlive = `SELECT set_config('tcp_keepalives_idle', '15', true),
	set_config('tcp_keepalives_interval', '5', true), set_config('tcp_keepalives_count', '3', true)`

// asWritten has values read independently of the settings of a database or a user: without a
// time zone they are UTC, and money has a point before the decimals.
const asWritten = `SELECT set_config('timezone', 'UTC', true), set_config('datestyle', 'ISO, MDY', true),
	set_config('intervalstyle', 'postgres', true), set_config('lc_monetary', 'C', true)`

// undisturbed has the server leave the idle holder of the lock alone, and limits how
// long it waits for the lock. Not every version has all of the settings.
const undisturbed = `SELECT set_config(name, value, true) FROM (VALUES
	('idle_in_transaction_session_timeout', '0'), ('transaction_timeout', '0'), ('statement_timeout', '0'), ('lock_timeout', '` + lockWait + `')
) AS settings (name, value) JOIN pg_catalog.pg_settings USING (name)`

// attended is keepAlive and undisturbed for a session that holds the lock while no
// transaction is open.
const attended = `SELECT set_config('tcp_keepalives_idle', '15', false), set_config('tcp_keepalives_interval', '5', false),
	set_config('tcp_keepalives_count', '3', false), set_config('idle_session_timeout', '0', false)`

// A link is a connection that is made anew when it was lost.
type link struct {
	config *pgx.ConnConfig
	conn   *pgx.Conn // nil if there is none
	since  time.Time
	pooled *bool // it leads to a pooler; nil if that is not known yet
}

func (l *link) connect(ctx context.Context) error {
	if l.conn != nil && !l.conn.IsClosed() {
		return nil
	}
	conn, err := pgx.ConnectConfig(ctx, l.config)
	if err != nil {
		return err
	}
	l.conn, l.since, l.pooled = conn, time.Now(), nil
	return nil
}

func (l *link) close() error {
	if l.conn == nil {
		return nil
	}
	conn := l.conn
	l.conn = nil
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	return conn.Close(ctx)
}

// lock takes the advisory lock, unless the sink has it. The session that writes holds it,
// outside of transactions. Through a pooler, such as PgBouncer, sessions are not the
// sink's own: there a second connection holds it, in a transaction that stays open.
func (t *target) lock(ctx context.Context) error {
	pooled, err := t.pooled(ctx)
	switch {
	case err != nil:
		return err
	case pooled:
		err = t.hold(ctx)
	case t.locked == t.writer.conn:
		return nil
	default:
		err = t.lockSession(ctx)
	}
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == "55P03" { // lock_not_available
		return fmt.Errorf("%w (table %s, name %q)", sink.ErrLocked, &t.table, t.name)
	}
	if err == nil {
		t.locked = t.writer.conn
	}
	return err
}

// pooled reports whether the connection that writes leads to a pooler: the process that
// answers is not the one that the connection was told of.
func (t *target) pooled(ctx context.Context) (bool, error) {
	if l := &t.writer; l.pooled == nil {
		if err := t.step(); err != nil {
			return false, err
		}
		var process uint32
		if err := l.conn.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&process); err != nil {
			return false, err
		}
		pooled := process != l.conn.PgConn().PID()
		l.pooled = &pooled
	}
	return *t.writer.pooled, nil
}

// lockSession has the session that writes take the lock.
func (t *target) lockSession(ctx context.Context) error {
	if err := t.step(); err != nil {
		return err
	}
	b := &pgx.Batch{}
	b.Queue("BEGIN ISOLATION LEVEL READ COMMITTED")
	b.Queue(undisturbed)
	b.Queue("SELECT pg_advisory_lock(hashtextextended($1, 0))", t.lockName())
	b.Queue(attended)
	b.Queue("COMMIT")
	err := t.writer.conn.SendBatch(ctx, b).Close()
	if err == nil {
		return nil
	}
	if _, e := t.writer.conn.Exec(ctx, "ROLLBACK"); e != nil {
		_ = t.writer.close() // what is wrong with it is in err
	}
	return err
}

// hold has a connection of its own take the lock, for a transaction that stays open, so
// that the lock ends with the connection also behind a pooler.
func (t *target) hold(ctx context.Context) error {
	if t.holder.conn != nil {
		if err := t.step(); err != nil {
			return err
		}
		if _, err := t.holder.conn.Exec(ctx, "SELECT 1"); err == nil {
			return nil
		}
		// The lock is lost with the transaction.
		if err := t.holder.close(); err != nil && ctx.Err() != nil {
			return err
		}
	}
	if err := t.holder.connect(ctx); err != nil {
		return err
	}
	err := t.step()
	if err == nil {
		b := &pgx.Batch{}
		b.Queue("BEGIN ISOLATION LEVEL READ COMMITTED")
		b.Queue(keepAlive)
		b.Queue(undisturbed)
		b.Queue("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", t.lockName())
		err = t.holder.conn.SendBatch(ctx, b).Close()
	}
	if err != nil {
		// What is not whole must not be taken for a lock.
		_ = t.holder.close()
	}
	return err
}

func (t *target) lockName() string { return "feedctl sink " + t.table.String() + " " + t.name }

// A place is what the row of the position says.
type place struct {
	position string
	owner    string
	commits  int64
}

// look reads the row of the position, when no transaction has it any more.
func (t *target) look(ctx context.Context) (p place, err error) {
	if err := t.step(); err != nil {
		return p, err
	}
	err = t.writer.conn.QueryRow(ctx, "SELECT position, owner, commits FROM "+t.table.quoted(positionsTable)+
		" WHERE table_name = $1 AND name = $2 FOR UPDATE", t.table.name, t.name).Scan(&p.position, &p.owner, &p.commits)
	if errors.Is(err, pgx.ErrNoRows) {
		return p, fmt.Errorf("the row of %s, name %q, is gone from %s", &t.table, t.name, positionsTable)
	}
	return p, err
}

// take makes the sink the owner of the position. Whoever was the owner before can no
// longer commit.
func (t *target) take(ctx context.Context) (p place, err error) {
	if err := t.step(); err != nil {
		return p, err
	}
	err = t.writer.conn.QueryRow(ctx, "UPDATE "+t.table.quoted(positionsTable)+
		" SET owner = $3 WHERE table_name = $1 AND name = $2 RETURNING position, owner, commits",
		t.table.name, t.name, t.owner).Scan(&p.position, &p.owner, &p.commits)
	if errors.Is(err, pgx.ErrNoRows) {
		return p, fmt.Errorf("the row of %s, name %q, is gone from %s", &t.table, t.name, positionsTable)
	}
	return p, err
}
