package outbox

import (
	"context"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"
)

// bodies reads large bodies.
type bodies struct {
	db interface {
		QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	}
	table string
}

func (b bodies) open(ctx context.Context, feed string, id, size int64) io.Reader {
	return &bodyReader{ctx: ctx, bodies: b, feed: feed, id: id, left: size}
}

// A bodyReader reads a large body in pieces. A row never changes, so the pieces
// need not be read in one transaction.
type bodyReader struct {
	bodies
	ctx   context.Context
	feed  string
	id    int64
	piece []byte // read from the database, but not yet returned
	at    int64  // bytes read
	left  int64  // bytes not read
}

func (b *bodyReader) Read(p []byte) (int, error) {
	if len(b.piece) == 0 {
		if b.left == 0 {
			return 0, io.EOF
		}
		if err := b.next(); err != nil {
			return 0, fmt.Errorf("read body of row %d of the outbox of feed %q: %w", b.id, b.feed, err)
		}
	}
	n := copy(p, b.piece)
	b.piece = b.piece[n:]
	return n, nil
}

func (b *bodyReader) next() error {
	err := b.db.QueryRow(b.ctx, `SELECT substring(body FROM $3::int FOR $4::int) FROM `+b.table+` WHERE feed = $1 AND id = $2`,
		b.feed, b.id, b.at+1, inline).Scan(&b.piece)
	if err != nil {
		return err
	}
	if len(b.piece) == 0 {
		return io.ErrUnexpectedEOF
	}
	b.at += int64(len(b.piece))
	b.left -= int64(len(b.piece))
	return nil
}
