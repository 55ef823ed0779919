package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
)

// A batch larger than pieceSize bytes is sent to the server in pieces of that size, while later
// rows of the batch are still being applied.
const (
	pieceSize = 256 << 10
	pieces    = 4
)

// An ahead is a COPY that runs while entities are being applied, in the transaction that will
// commit the batch. It only saves time: if the COPY fails, the batch is still in the spool and is
// sent again.
//
// If the table has none of the keys, as when it is new, the COPY is direct: it needs no staging
// table and no merge. If the table has one of the keys after all, the server rejects the row; if
// the batch has two rows with the same key, or anything other than whole entities, the sink ends
// the COPY. The transaction is then rolled back, and all rows are staged until the sink is opened
// again.
type ahead struct {
	direct bool
	ctx    context.Context
	cancel context.CancelFunc
	full   chan []byte // pieces to send
	free   chan []byte // pieces to fill
	done   chan error  // of the COPY

	undone bool // set before full is closed: the COPY must fail, so that no row is kept

	begun bool   // the header was read
	piece []byte // being read
	rest  []byte // unread part of piece, the header or the trailer
	ended bool   // the trailer was read
}

// Read reads the data to be copied.
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
		if !ok && a.undone {
			return errUndone
		}
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

// advance sends rows to the server once pieceSize bytes of applied rows are waiting.
func (t *target) advance(ctx context.Context) {
	if t.alone || t.spool.end()-t.sent < pieceSize {
		return
	}
	if t.ahead == nil && t.start(ctx) != nil {
		// If the error persists, the commit reports it.
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
	// Through a pooler, the COPY is not direct: the server may not notice for a long time that the
	// sink is gone, and other consumers would wait for uncommitted rows of the table.
	direct := t.direct && t.fresh && !t.Writer.Pooled()
	create, sql := t.table.stage(t.staging, "", "DELETE ROWS"), t.table.copy(t.staging)
	if direct {
		create, sql = "", t.table.copyNew()
	}
	if err := t.beginTransaction(ctx, create); err != nil {
		return err
	}
	if err := t.Step(); err != nil {
		return err
	}
	a := &ahead{direct: direct, full: make(chan []byte, pieces), free: make(chan []byte, pieces), done: make(chan error, 1)}
	// The batch can be committed even if its context has ended.
	a.ctx, a.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if t.pieces == nil {
		t.pieces = make([]byte, pieces*pieceSize)
	}
	for i := range pieces {
		a.free <- t.pieces[i*pieceSize : (i+1)*pieceSize : (i+1)*pieceSize]
	}
	conn := t.Writer.Conn.PgConn()
	go func() {
		_, err := conn.CopyFrom(a.ctx, a, sql)
		a.done <- err
	}()
	t.ahead = a
	return nil
}

// hand passes applied rows to the COPY.
func (t *target) hand(ctx context.Context) {
	a := t.ahead
	if a.direct && !t.fresh {
		t.undo(ctx)
		return
	}
	for end := t.spool.end(); t.sent < end; {
		select {
		case piece := <-a.free:
			piece = piece[:cap(piece)]
			n, err := t.fill(piece, end)
			if err != nil {
				t.abandon()
				return
			}
			a.full <- piece[:n]
		case err := <-a.done:
			a.done <- err
			t.undo(ctx)
			return
		case <-ctx.Done():
			t.abandon()
			return
		}
	}
}

// fill fills a piece with rows from the spool, up to the offset end, and returns its length.
func (t *target) fill(piece []byte, end int64) (n int, err error) {
	if !t.ahead.direct {
		n, err = t.spool.readSome(piece, t.sent, end)
		t.sent += int64(n)
		return n, err
	}
	for t.sent < end && len(piece)-n >= 2 {
		e := t.spool.entries[t.sentRows]
		if t.sent == e.start {
			fields := len(staged) + len(t.table.contents) - onlyStaged
			binary.BigEndian.PutUint16(piece[n:], uint16(fields))
			n, t.sent = n+2, t.sent+onlyStagedSize
		}
		m, err := t.spool.readSome(piece[n:], t.sent, e.end)
		if err != nil {
			return n, err
		}
		n, t.sent = n+m, t.sent+int64(m)
		if t.sent == e.end {
			t.sentRows++
		}
	}
	return n, nil
}

// A sent says where the rows of a batch are in the open transaction.
type sent int

const (
	unsent  sent = iota // there is no transaction
	inStage             // in the staging table, including rows that were replaced
	inTable
)

// finish ends the COPY.
func (t *target) finish(ctx context.Context) sent {
	if t.ahead == nil {
		return unsent
	}
	t.hand(ctx)
	if t.ahead == nil {
		return unsent
	}
	a := t.ahead
	close(a.full)
	select {
	case err := <-a.done:
		a.done <- err
		if err == nil {
			a.cancel()
			t.ahead = nil
			if a.direct {
				return inTable
			}
			return inStage
		}
		t.undo(ctx)
	case <-ctx.Done():
		t.abandon()
	}
	return unsent
}

var errUndone = errors.New("the rows are staged instead")

// undo ends the COPY and rolls back the transaction. After a direct COPY, the connection and the
// lock on it are kept, and the batch is staged.
func (t *target) undo(ctx context.Context) {
	a := t.ahead
	if !a.direct {
		t.abandon()
		return
	}
	t.direct = false
	select {
	case err := <-a.done:
		a.done <- err
	default:
		a.undone = true
		close(a.full)
	}
	select {
	//nolint:errcheck // the error says why the server ended the COPY, or is errUndone
	case <-a.done:
	case <-ctx.Done():
		t.abandon()
		return
	}
	a.cancel()
	t.ahead, t.sent = nil, 0
	err := t.Step()
	if err == nil {
		_, err = t.Writer.Conn.Exec(ctx, "ROLLBACK")
	}
	if err != nil {
		// A goroutine of the connection may still read the pieces.
		t.pieces, t.alone = nil, true
		_ = t.Writer.Close() // if the error persists, the commit reports it
	}
}

// abandon closes the connection, which ends the transaction. The batch continues without a COPY
// ahead.
func (t *target) abandon() {
	if t.ahead == nil {
		return
	}
	t.ahead.cancel()
	//nolint:errcheck // the error is due to the cancellation, or will occur again
	<-t.ahead.done
	// A goroutine of the connection may still read the pieces.
	t.ahead, t.pieces, t.alone = nil, nil, true
	_ = t.Writer.Close() // the connection is replaced in any case
}
