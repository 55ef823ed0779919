package pgxsink

import (
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/sink/internal/session"
)

// NewFaulty returns a sink that calls a function before each request to the server.
func NewFaulty(pool *pgxpool.Pool, name string, apply Func, before func() error) consumer.Sink {
	t := newTarget(pool, name, apply)
	t.Before = before
	return session.New("postgres "+name, t)
}
