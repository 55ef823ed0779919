package sqlsink

import (
	"database/sql"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/sink/internal/session"
)

// NewFaulty returns a sink that calls the given function before each request to the database.
func NewFaulty(db *sql.DB, name string, apply Func, before func() error) consumer.Sink {
	return session.New("database "+name, &target{db: db, name: name, apply: apply, before: before})
}
