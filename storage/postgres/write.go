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

// mode makes every statement unnamed, so that no statement depends on the session.
const mode = pgx.QueryExecModeCacheDescribe

// pieceSize is the number of bytes of a body that are sent at a time and held in memory. A page of
// 1 MiB with its closing delimiter, as written by producers, is one piece and therefore takes one
// statement; a larger body takes five.
const pieceSize = 130 * chunkSize

// minPooled is the size, in bytes, from which a body is read into a pooled buffer.
const minPooled = 32 << 10

// rollbackTime limits how long a rollback may take before the connection is closed.
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

// A write is a requested write. It can be attempted several times.
type write struct {
	kind kind
	key  string
	at   storage.Version
	meta storage.Meta
	body storage.Body

	version storage.Version // the new version
	id      int64           // ID of the body, if the write makes a new one
	size    int64           // of body
	small   []byte          // the body, if it fits into one piece
	buffer  *[]byte         // holds small, if it is from the pool of tables
}

func (w *write) failed(err error) error { return failed(w.kind.String(), w.key, err) }

// prepare makes the checks for which the server is not needed, and reads a small body.
func (w *write) prepare(ctx context.Context, table tables) error {
	if err := checkKey(ctx, w.key); err != nil {
		return err
	}
	if err := storage.CheckMeta(w.meta); err != nil {
		return err
	}
	if w.kind != create && !isVersion(w.at) {
		return fmt.Errorf("%w: invalid version %.40q", storage.ErrConflict, w.at)
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

// done returns the buffer to the pool.
func (w *write) done(table tables) {
	if w.buffer != nil {
		table.buffers.Put(w.buffer)
	}
}

// keepAlive makes the server notice within half a minute that the writer's host is gone,
// so that the object does not stay locked for the hours of the default settings.
const keepAlive = `SELECT set_config('tcp_keepalives_idle', '15', true),
	set_config('tcp_keepalives_interval', '5', true), set_config('tcp_keepalives_count', '3', true)`

// do makes one attempt at the write.
func (w *write) do(ctx context.Context, db database, table tables) error {
	if w.size <= pieceSize {
		_, err := w.put(ctx, db, table, w.small)
		return err
	}
	tx, err := db.Begin(ctx) // begins a savepoint if db is a transaction
	if err != nil {
		return err
	}
	if err := w.stream(ctx, tx, table); err != nil {
		// Roll back even if ctx has ended: the caller's transaction must be restored.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTime)
		defer cancel()
		_ = tx.Rollback(ctx) // fails only if the connection, and with it the transaction, is gone
		return uncommittedError{err}
	}
	return tx.Commit(ctx)
}

// stream writes a large body in a transaction. The first statement locks the object, so
// that a conflict is detected before the rest is sent.
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
	var to target
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

// A target says to which body, and at which position in it, the bytes of a write are written.
type target struct{ body, position int64 }

// put writes the object's row and the first piece of the body.
func (w *write) put(ctx context.Context, db database, table tables, piece []byte) (target, error) {
	var p params
	p.text(w.key)
	p.text(string(w.version))
	p.int8(w.size)
	p.text(w.meta.ContentType)
	p.text(w.meta.CacheControl)
	p.bytea(w.meta.Data)
	p.bytea(piece)
	sql := table.sql.create
	switch w.kind {
	case create:
		p.int8(w.id)
	case grow:
		sql = table.sql.grow
		p.text(string(w.at))
	case replace:
		sql = table.sql.replace
		p.text(string(w.at))
		p.int8(w.id)
	}
	row, err := call(ctx, db, sql, p)
	if err != nil {
		return target{}, err
	}
	body, position, ok := int8s(row)
	switch {
	case ok:
		return target{body, position}, nil
	case w.kind == create:
		return target{}, storage.ErrExists
	default:
		return target{}, fmt.Errorf("%w than %s, or is gone", storage.ErrConflict, w.at)
	}
}

// readPiece fills the buffer from the body, or reads the rest of the body if that is shorter than
// the buffer. After the last piece it checks that the body ends.
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

// A bodyError is an error from reading the body to be written. Even if it wraps a network error,
// that is not an error of the server.
type bodyError struct{ error }

func (e bodyError) Unwrap() error { return e.error }

// isVersion reports whether v has the form of a version, so the server accepts it as text.
func isVersion(v storage.Version) bool {
	for _, c := range []byte(v) {
		if (c < 'A' || c > 'Z') && (c < '2' || c > '7') {
			return false
		}
	}
	return v != ""
}

// randomID returns a unique ID: a reader of one body must never get chunks of another.
func randomID() int64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
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
		return fmt.Errorf("negative offset %d", offset)
	}
	return nil
}
