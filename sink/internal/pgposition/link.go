package pgposition

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// closeWait is how long to wait for the server at the end.
const closeWait = 5 * time.Second

// A Link is a connection that is made again when it was lost.
type Link struct {
	// Dial makes a connection that is the caller's own.
	Dial func(context.Context) (*pgx.Conn, error)
	// Conn is the connection; nil if there is none.
	Conn *pgx.Conn

	since  time.Time
	pooled *bool // it leads to a pooler; nil if that is not known yet
}

// Dialer returns a function that makes connections as a pool does. The configuration can be
// changed; change may be nil.
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

// Connect makes the connection, unless there is one.
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

// Close ends the connection, and may be called again.
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

// Age returns for how long the connection has been there, or how long ago [Link.Renewed] was called.
func (l *Link) Age() time.Duration { return time.Since(l.since) }

// Renewed says that the session has been put into the state of a new one.
func (l *Link) Renewed() { l.since = time.Now() }

// Pooled reports whether the connection leads to a pooler, or may do so.
func (l *Link) Pooled() bool { return l.pooled == nil || *l.pooled }
