package jobdb

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"sync"
)

// A prepared holds prepared statements of an SQLite database. They are worth keeping, since SQLite takes
// longer to prepare most statements than to execute them.
type prepared struct {
	db *sql.DB

	mu         sync.Mutex
	statements map[string]*sql.Stmt // by text; nil for a statement that was executed only once
	next       []string             // texts of statements that were executed again, and are to be prepared
}

// maxPrepared is the maximum number of statements that are kept, which limits their memory.
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
		s, err := p.db.PrepareContext(ctx, text) //nolint:sqlclosecheck // closed with the database
		p.mu.Lock()
		if err != nil {
			delete(p.statements, text) // the next execution returns the error if it persists
		} else {
			p.statements[text] = s
		}
		p.mu.Unlock()
	}
}

// in returns the prepared statement for a text, to be executed in a transaction, or nil if the statement has
// not been prepared.
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
	if s := p.in(ctx, tx, text); s != nil { //nolint:sqlclosecheck // closed at the end of the transaction
		return s.ExecContext(ctx, args...)
	}
	return tx.ExecContext(ctx, text, args...)
}

func (p *prepared) query(ctx context.Context, tx *sql.Tx, text string, args []any) (*sql.Rows, error) {
	if s := p.in(ctx, tx, text); s != nil { //nolint:sqlclosecheck // closed at the end of the transaction
		return s.QueryContext(ctx, args...)
	}
	return tx.QueryContext(ctx, text, args...)
}
