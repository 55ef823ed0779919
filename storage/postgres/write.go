package postgres

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/feedctl/feedctl/storage"
)

// mode is how every statement is sent: parsed each time, under no name that
// would belong to a session.
const mode = pgx.QueryExecModeCacheDescribe

// pieceSize is how many bytes of a body are sent at a time, and how many are in
// memory. A page of 1 MiB with its closing delimiter, as producers write them, is one
// piece: one statement, where a larger body takes five.
const pieceSize = 130 * chunkSize

// minPooled is from which size on bodies are read into a buffer that is used again.
const minPooled = 32 << 10

// rollbackTime is how long a connection may take to answer that nothing was written,
// before it is closed.
const rollbackTime = 10 * time.Second

// A database is a pool of connections, or a transaction.
type database interface {
	Begin(ctx context.Context) (pgx.Tx, error)
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

type kind int

const (
	create kind = iota
	grow
	replace
)

func (k kind) String() string { return [...]string{"create", "append to", "replace"}[k] }

// A write is one that the caller asked for. It can be done again.
type write struct {
	kind kind
	key  string
	at   storage.Version
	meta storage.Meta
	body storage.Body

	version storage.Version // that the object will have
	id      int64           // of its body, if that is new
	size    int64           // of body
	small   []byte          // body, if it is but one piece
	buffer  *[]byte         // that small is in, if it is a buffer of tables
}

func (w *write) failed(err error) error { return failed(w.kind.String(), w.key, err) }

// prepare checks what can be checked without the server, and reads a body that is
// small.
func (w *write) prepare(ctx context.Context, table tables) error {
	if err := checkKey(ctx, w.key); err != nil {
		return err
	}
	if err := storage.CheckMeta(w.meta); err != nil {
		return err
	}
	if w.kind != create && !isVersion(w.at) {
		return fmt.Errorf("%w: there never was a version %.40q", storage.ErrConflict, w.at)
	}
	w.version, w.id = storage.Version(rand.Text()), randomID()
	w.size = w.body.Size()
	if w.size > pieceSize {
		return nil
	}
	r, err := storage.OpenExact(w.body)
	if err != nil {
		return err
	}
	if w.small, err = readPiece(r, w.room(table), w.size); err != nil {
		return errors.Join(err, r.Close())
	}
	return closeBody(r)
}

// room returns a buffer for a body of one piece.
func (w *write) room(table tables) []byte {
	if w.size < minPooled {
		return make([]byte, max(w.size, 0))
	}
	w.buffer = table.buffer()
	return *w.buffer
}

// done gives the buffer back.
func (w *write) done(table tables) {
	if w.buffer != nil {
		table.buffers.Put(w.buffer)
	}
}

// keepAlive has the server notice within half a minute that the writer's host is gone,
// so that the object is not locked for the hours that systems take by default.
const keepAlive = `SELECT set_config('tcp_keepalives_idle', '15', true),
	set_config('tcp_keepalives_interval', '5', true), set_config('tcp_keepalives_count', '3', true)`

// do does the write once.
func (w *write) do(ctx context.Context, db database, table tables) error {
	if w.size <= pieceSize {
		_, err := w.put(ctx, db, table, w.small)
		return err
	}
	tx, err := db.Begin(ctx) // a savepoint, in a transaction
	if err != nil {
		return err
	}
	if err := w.stream(ctx, tx, table); err != nil {
		// Also if ctx has ended: a caller's transaction must be as it was.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTime)
		defer cancel()
		_ = tx.Rollback(ctx) // if that fails, the connection is gone, and the transaction with it
		return uncommittedError{err}
	}
	return tx.Commit(ctx)
}

// stream does the write of a large body in a transaction. The object is locked by
// the first statement, so that a conflict is known before the rest is sent.
func (w *write) stream(ctx context.Context, tx pgx.Tx, table tables) (err error) {
	r, err := storage.OpenExact(w.body)
	if err != nil {
		return err
	}
	defer func() {
		if e := closeBody(r); err == nil {
			err = e
		}
	}()
	if _, err := tx.Exec(ctx, keepAlive); err != nil {
		return err
	}
	buffer := table.buffer()
	defer table.buffers.Put(buffer)
	var to place
	for done := int64(0); done < w.size; done += pieceSize {
		piece, err := readPiece(r, *buffer, w.size-done)
		if err != nil {
			return err
		}
		if done == 0 {
			to, err = w.put(ctx, tx, table, piece)
		} else {
			_, err = tx.Exec(ctx, table.sql.addChunks, mode, to.body, to.position+done, piece)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// A place is where the bytes of a write begin.
type place struct{ body, position int64 }

// put writes the object's row and the first piece of the body.
func (w *write) put(ctx context.Context, db database, table tables, piece []byte) (place, error) {
	args := []any{mode, w.key, string(w.version), w.size, w.meta.ContentType, w.meta.CacheControl, notNil(w.meta.Data), notNil(piece)}
	sql := ""
	switch w.kind {
	case create:
		sql, args = table.sql.create, append(args, w.id)
	case grow:
		sql, args = table.sql.grow, append(args, string(w.at))
	case replace:
		sql, args = table.sql.replace, append(args, string(w.at), w.id)
	}
	var body, position *int64 // of an object that is as the caller knows it
	if err := db.QueryRow(ctx, sql, args...).Scan(&body, &position); err != nil {
		return place{}, err
	}
	switch {
	case body != nil && position != nil:
		return place{*body, *position}, nil
	case w.kind == create:
		return place{}, storage.ErrExists
	default:
		return place{}, fmt.Errorf("%w than %s, or is gone", storage.ErrConflict, w.at)
	}
}

// readPiece fills the buffer, or reads all that is left. After the last piece it
// makes sure that the body ends.
func readPiece(r io.Reader, buffer []byte, left int64) ([]byte, error) {
	piece := buffer[:min(int64(len(buffer)), left)]
	if _, err := io.ReadFull(r, piece); err != nil {
		return nil, bodyError{err}
	}
	if int64(len(piece)) == left {
		if _, err := r.Read(make([]byte, 1)); err != io.EOF {
			return nil, bodyError{err}
		}
	}
	return piece, nil
}

func closeBody(r io.Closer) error {
	if err := r.Close(); err != nil {
		return bodyError{fmt.Errorf("close body: %w", err)}
	}
	return nil
}

// A bodyError is one of the body that was to be written. It says nothing about the
// server, whatever it wraps.
type bodyError struct{ error }

func (e bodyError) Unwrap() error { return e.error }

// isVersion reports whether v looks like a version, which the server could compare.
func isVersion(v storage.Version) bool {
	for _, c := range []byte(v) {
		if (c < 'A' || c > 'Z') && (c < '2' || c > '7') {
			return false
		}
	}
	return v != ""
}

// randomID returns an id that was never used and never will be: a reader who asks
// for the chunks of a body must not get those of another.
func randomID() int64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	return int64(binary.BigEndian.Uint64(b[:]) & math.MaxInt64)
}

func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

func checkKey(ctx context.Context, key string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return storage.CheckKey(key)
}

func checkRange(ctx context.Context, key string, offset int64) error {
	if err := checkKey(ctx, key); err != nil {
		return err
	}
	if offset < 0 {
		return fmt.Errorf("offset %d is negative", offset)
	}
	return nil
}
