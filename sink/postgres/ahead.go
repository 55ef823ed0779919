package postgres

import (
	"context"
	"io"
)

// A batch of more than pieceSize bytes is sent to the server while the rest of it is still
// being applied, in pieces of that size.
const (
	pieceSize = 256 << 10
	pieces    = 4
)

// An ahead is a COPY that runs while entities are applied, in the transaction that will
// commit the batch. It only saves time: if it fails, the batch is in the spool and is sent
// again.
type ahead struct {
	ctx    context.Context
	cancel context.CancelFunc
	full   chan []byte // pieces to send
	free   chan []byte // pieces to fill
	done   chan error  // of the COPY

	begun bool   // the header was read
	piece []byte // being read
	rest  []byte // of piece, or of the header or trailer
	ended bool   // the trailer was read
}

// Read reads the data of the COPY.
func (a *ahead) Read(p []byte) (n int, err error) {
	for n < len(p) {
		if len(a.rest) == 0 {
			if n > 0 && a.begun && len(a.full) == 0 {
				return n, nil
			}
			if err := a.next(); err != nil {
				return n, err
			}
		}
		m := copy(p[n:], a.rest)
		a.rest = a.rest[m:]
		n += m
	}
	return n, nil
}

func (a *ahead) next() error {
	if !a.begun {
		a.begun, a.rest = true, copyHeader
		return nil
	}
	if a.ended {
		return io.EOF
	}
	if a.piece != nil {
		a.free <- a.piece
		a.piece = nil
	}
	select {
	case piece, ok := <-a.full:
		if !ok {
			a.ended, a.rest = true, copyTrailer
			return nil
		}
		a.piece, a.rest = piece, piece
		return nil
	case <-a.ctx.Done():
		return a.ctx.Err()
	}
}

// advance sends applied rows once there are pieceSize bytes of them.
func (t *target) advance(ctx context.Context) {
	if t.alone || t.spool.end()-t.sent < pieceSize {
		return
	}
	if t.ahead == nil && t.start(ctx) != nil {
		// The commit reports an error that persists.
		t.alone = true
		_ = t.Writer.Close()
		return
	}
	t.hand(ctx)
}

// start begins the transaction and the COPY.
func (t *target) start(ctx context.Context) error {
	if err := t.connect(ctx); err != nil {
		return err
	}
	if err := t.beginTransaction(ctx, t.staging, false); err != nil {
		return err
	}
	if err := t.Step(); err != nil {
		return err
	}
	a := &ahead{full: make(chan []byte, pieces), free: make(chan []byte, pieces), done: make(chan error, 1)}
	// The batch can be committed even if its context has ended.
	a.ctx, a.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if t.pieces == nil {
		t.pieces = make([]byte, pieces*pieceSize)
	}
	for i := range pieces {
		a.free <- t.pieces[i*pieceSize : (i+1)*pieceSize : (i+1)*pieceSize]
	}
	conn, sql := t.Writer.Conn.PgConn(), t.table.copy(t.staging)
	go func() {
		_, err := conn.CopyFrom(a.ctx, a, sql)
		a.done <- err
	}()
	t.ahead = a
	return nil
}

// hand sends applied rows to the COPY.
func (t *target) hand(ctx context.Context) {
	a := t.ahead
	for end := t.spool.end(); t.sent < end; {
		select {
		case piece := <-a.free:
			piece = piece[:cap(piece)]
			n, err := t.spool.readSome(piece, t.sent, end)
			if err != nil {
				t.abandon()
				return
			}
			t.sent += int64(n)
			a.full <- piece[:n]
		case err := <-a.done:
			a.done <- err
			t.abandon()
			return
		case <-ctx.Done():
			t.abandon()
			return
		}
	}
}

// finish ends the COPY and reports whether all rows of the batch are staged.
func (t *target) finish(ctx context.Context) bool {
	if t.ahead == nil {
		return false
	}
	t.hand(ctx)
	if t.ahead == nil {
		return false
	}
	a := t.ahead
	close(a.full)
	select {
	case err := <-a.done:
		a.done <- err
		if err == nil {
			a.cancel()
			t.ahead = nil
			return true
		}
	case <-ctx.Done():
	}
	t.abandon()
	return false
}

// abandon closes the connection and so ends the transaction. The batch continues without
// a COPY ahead.
func (t *target) abandon() {
	if t.ahead == nil {
		return
	}
	t.ahead.cancel()
	//nolint:errcheck // it says that it was cancelled, or what will be met again
	<-t.ahead.done
	// A goroutine of the connection may still read the pieces.
	t.ahead, t.pieces, t.alone = nil, nil, true
	_ = t.Writer.Close() // to be replaced in any case
}
