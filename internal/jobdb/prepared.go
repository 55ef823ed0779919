package jobdb

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"sync"
)

// A prepared keeps statements of an SQLite database prepared: SQLite needs longer to prepare most of
// them than to execute them.
type prepared struct {
	db *sql.DB

	mu         sync.Mutex
	statements map[string]*sql.Stmt // by text; nil if it was executed once
	next       []string             // texts that were executed again, and are to be prepared
}

// maxPrepared limits the memory for statements.
const maxPrepared = 200

func newPrepared(db *sql.DB) *prepared {
	return &prepared{db: db, statements: map[string]*sql.Stmt{}}
}

// prepare prepares statements that were executed twice. It needs the connection, so the caller must not be in
// a transaction.
func (p *prepared) prepare(ctx context.Context) {
	p.mu.Lock()
	next := p.next
	p.next = nil
	p.mu.Unlock()
	for _, text := range next {
		s, err := p.db.PrepareContext(ctx, text) //nolint:sqlclosecheck // the end of the database closes it
		p.mu.Lock()
		if err != nil {
			delete(p.statements, text) // its next execution returns the error, if there still is one
		} else {
			p.statements[text] = s
		}
		p.mu.Unlock()
	}
}

// in returns a prepared statement for a transaction, or nil.
func (p *prepared) in(ctx context.Context, tx *sql.Tx, text string) *sql.Stmt {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, again := p.statements[text]
	switch {
	case s != nil:
		return tx.StmtContext(ctx, s)
	case again && !slices.Contains(p.next, text):
		p.next = append(p.next, text)
	case !again && len(p.statements) < maxPrepared && strings.Count(text, "?") <= maxKept:
		p.statements[text] = nil
	}
	return nil
}

func (p *prepared) exec(ctx context.Context, tx *sql.Tx, text string, args []any) (sql.Result, error) {
	if s := p.in(ctx, tx, text); s != nil { //nolint:sqlclosecheck // the end of the transaction closes it
		return s.ExecContext(ctx, args...)
	}
	return tx.ExecContext(ctx, text, args...)
}

func (p *prepared) query(ctx context.Context, tx *sql.Tx, text string, args []any) (*sql.Rows, error) {
	if s := p.in(ctx, tx, text); s != nil { //nolint:sqlclosecheck // the end of the transaction closes it
		return s.QueryContext(ctx, args...)
	}
	return tx.QueryContext(ctx, text, args...)
}
