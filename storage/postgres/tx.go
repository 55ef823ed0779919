package postgres

import (
	"context"
	"errors"
	"iter"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/storage"
)

// A Tx is a store within the caller's transaction. It implements [storage.Store], with
// these differences:
//
//   - Writes become visible and durable when the transaction is committed, together
//     with its other changes. If it is rolled back, nothing is written.
//   - Reads see the writes of the transaction. They must also see the committed writes
//     of others, so the isolation level must be READ COMMITTED.
//   - Nothing is retried. After ErrExists, ErrConflict and errors from reading a body, the
//     transaction can continue; after any other error it can only be rolled back.
//   - Other writers of the same objects wait until the transaction ends. Keep it short.
//
// The methods may be called concurrently, but not while the transaction is being used in other
// ways; see [Tx.Exclusively]. An open body uses the transaction.
type Tx struct {
	tx      pgx.Tx
	table   tables
	channel string
	mu      *sync.Mutex // held during a statement
}

func newTx(tx pgx.Tx, table tables, channel string) *Tx {
	return &Tx{tx, table, channel, new(sync.Mutex)}
}

// Create implements [storage.Store].
func (t *Tx) Create(ctx context.Context, key string, meta storage.Meta, body storage.Body) (storage.Version, error) {
	return t.write(ctx, &write{kind: create, key: key, meta: meta, body: body})
}

// Append implements [storage.Store].
func (t *Tx) Append(ctx context.Context, key string, at storage.Version, meta storage.Meta, tail storage.Body) (storage.Version, error) {
	return t.write(ctx, &write{kind: grow, key: key, at: at, meta: meta, body: tail})
}

// Replace implements [storage.Store].
func (t *Tx) Replace(ctx context.Context, key string, at storage.Version, meta storage.Meta, body storage.Body) (storage.Version, error) {
	return t.write(ctx, &write{kind: replace, key: key, at: at, meta: meta, body: body})
}

func (t *Tx) write(ctx context.Context, w *write) (storage.Version, error) {
	defer w.done(t.table)
	err := w.prepare(ctx, t.table)
	if err == nil {
		err = t.locked(func() error {
			if err := w.do(ctx, t.tx, t.table); err != nil {
				return err
			}
			return t.notify(ctx, w.key)
		})
	}
	if err != nil {
		return "", w.failed(outcome(err, false))
	}
	return w.version, nil
}

// notify sends a notification, which is delivered when the transaction is committed.
func (t *Tx) notify(ctx context.Context, key string) error {
	_, err := t.tx.Exec(ctx, notify(t.channel, key))
	return err
}

func (t *Tx) locked(do func() error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return do()
}

// Exclusively calls f, which may use the transaction directly, while no method uses it.
func (t *Tx) Exclusively(f func() error) error { return t.locked(f) }

// Delete implements [storage.Store].
func (t *Tx) Delete(ctx context.Context, key string) error {
	err := checkKey(ctx, key)
	for deleted := false; err == nil && !deleted; {
		err = t.locked(func() error {
			info, err := t.table.stat(ctx, t.tx, key)
			if err != nil {
				return err
			}
			if deleted, err = t.table.remove(ctx, t.tx, key, info.Version); !deleted {
				return err // nil, to try again, if another writer has just changed the object
			}
			return t.notify(ctx, key)
		})
	}
	if err == nil || errors.Is(err, storage.ErrNotFound) {
		return nil
	}
	return failed("delete", key, outcome(err, false))
}

// Get implements [storage.Store].
func (t *Tx) Get(ctx context.Context, key string, offset, length int64) (*storage.Object, error) {
	if err := checkRange(ctx, key, offset); err != nil {
		return nil, failed("get", key, err)
	}
	var o opened
	err := t.locked(func() (err error) {
		o, err = t.table.open(ctx, t.tx, key, offset, length)
		return err
	})
	if err != nil {
		return nil, failed("get", key, outcome(err, false))
	}
	return o.object(ctx, func(id, from, to int64, buffer []byte) (data []byte, err error) {
		err = t.locked(func() (err error) {
			data, err = t.table.read(ctx, t.tx, id, from, to, buffer)
			return err
		})
		return data, err
	}), nil
}

// Stat implements [storage.Store].
func (t *Tx) Stat(ctx context.Context, key string) (info storage.Info, err error) {
	if err = checkKey(ctx, key); err == nil {
		err = t.locked(func() (err error) {
			info, err = t.table.stat(ctx, t.tx, key)
			return err
		})
	}
	if err != nil {
		return storage.Info{}, failed("stat", key, outcome(err, false))
	}
	return info, nil
}

// List implements [storage.Store].
func (t *Tx) List(ctx context.Context, prefix, after string) iter.Seq2[storage.Entry, error] {
	return list(ctx, prefix, after, func(after string, limit int) (entries []storage.Entry, err error) {
		err = t.locked(func() (err error) {
			entries, err = t.table.list(ctx, t.tx, t.table.sql.list, prefix, after, limit)
			return err
		})
		return entries, err
	})
}

// Close implements [storage.Store]. It does not end the transaction.
func (t *Tx) Close() error { return nil }
