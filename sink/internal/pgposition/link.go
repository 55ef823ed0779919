package pgposition

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// closeWait is how long Close waits for the server.
const closeWait = 5 * time.Second

// A Link is a connection that can be restored.
type Link struct {
	// Dial opens a connection, which belongs to the caller.
	Dial func(context.Context) (*pgx.Conn, error)
	// Conn is the connection; nil if there is none.
	Conn *pgx.Conn

	since  time.Time
	pooled *bool // whether it leads to a pooler; nil if unknown
}

// Dialer returns a function that connects with the configuration of a pool, as modified by
// change, which may be nil.
func Dialer(pool *pgxpool.Pool, change func(*pgx.ConnConfig)) func(context.Context) (*pgx.Conn, error) {
	return func(ctx context.Context) (*pgx.Conn, error) {
		config := pool.Config() // a copy
		if config.BeforeConnect != nil {
			if err := config.BeforeConnect(ctx, config.ConnConfig); err != nil {
				return nil, err
			}
		}
		if change != nil {
			change(config.ConnConfig)
		}
		conn, err := pgx.ConnectConfig(ctx, config.ConnConfig)
		if err == nil && config.AfterConnect != nil {
			if err = config.AfterConnect(ctx, conn); err != nil {
				_ = conn.Close(ctx)
				return nil, err
			}
		}
		return conn, err
	}
}

// Connect opens the connection unless it is open.
func (l *Link) Connect(ctx context.Context) error {
	if l.Conn != nil && !l.Conn.IsClosed() {
		return nil
	}
	conn, err := l.Dial(ctx)
	if err != nil {
		return err
	}
	l.Conn, l.since, l.pooled = conn, time.Now(), nil
	return nil
}

// Close closes the connection. It may be called more than once.
func (l *Link) Close() error {
	if l.Conn == nil {
		return nil
	}
	conn := l.Conn
	l.Conn = nil
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	return conn.Close(ctx)
}

// Age returns the time since the connection was opened, or since [Link.Renewed] was called.
func (l *Link) Age() time.Duration { return time.Since(l.since) }

// Renewed records that the session has been reset to the state of a new one.
func (l *Link) Renewed() { l.since = time.Now() }

// Pooled reports whether the connection leads to a pooler, or may do so.
func (l *Link) Pooled() bool { return l.pooled == nil || *l.pooled }
