package outbox

import (
	"context"
	"errors"
	"io"
	"iter"
	"sync"
	"time"

	"github.com/feedctl/feedctl/storage"
)

// A txStore is the store as seen in the current transaction, between open and shut. A producer
// acknowledges a batch as soon as the batch is durable, and may still make requests after that;
// these wait for the next transaction. After an error that leaves the transaction in an unknown
// state, broken is closed.
type txStore struct {
	broken chan struct{}

	mu      sync.Mutex
	changed *sync.Cond    // signals changes of the following fields
	store   storage.Store // nil if there is no transaction
	users   int           // operations under way, and bodies that have not been closed
	cause   error         // why broken was closed
}

func newTxStore() *txStore {
	t := &txStore{broken: make(chan struct{})}
	t.changed = sync.NewCond(&t.mu)
	return t
}

// open allows operations to begin.
func (t *txStore) open(store storage.Store) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.store = store
	t.changed.Broadcast()
}

// shut prevents operations from beginning, and waits for those under way. After that, only the
// caller uses the transaction. If broken was closed, shut returns the reason.
func (t *txStore) shut() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.store = nil
	for t.users > 0 {
		t.changed.Wait()
	}
	return t.cause
}

// enter waits for a transaction. The caller must call leave.
func (t *txStore) enter() (storage.Store, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.store == nil && t.cause == nil {
		t.changed.Wait()
	}
	if t.cause != nil {
		return nil, t.cause
	}
	t.users++
	return t.store, nil
}

func (t *txStore) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.users--
	t.changed.Broadcast()
}

func (t *txStore) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cause == nil {
		t.cause = err
		close(t.broken)
		t.changed.Broadcast()
	}
}

// see returns err. If the transaction cannot continue after err, it calls fail first.
func (t *txStore) see(err error) error {
	for _, harmless := range []error{storage.ErrExists, storage.ErrConflict, storage.ErrNotFound} {
		if errors.Is(err, harmless) {
			return err
		}
	}
	if err != nil {
		t.fail(err)
	}
	return err
}

// within runs an operation in the transaction.
func within[T any](t *txStore, do func(storage.Store) (T, error)) (T, error) {
	store, err := t.enter()
	if err != nil {
		var none T
		return none, err
	}
	defer t.leave()
	result, err := do(store)
	return result, t.see(err)
}

func (t *txStore) Create(ctx context.Context, key string, meta storage.Meta, body storage.Body) (storage.Version, error) {
	return within(t, func(s storage.Store) (storage.Version, error) { return s.Create(ctx, key, meta, body) })
}

func (t *txStore) Append(ctx context.Context, key string, at storage.Version, meta storage.Meta, tail storage.Body) (storage.Version, error) {
	return within(t, func(s storage.Store) (storage.Version, error) { return s.Append(ctx, key, at, meta, tail) })
}

func (t *txStore) Replace(ctx context.Context, key string, at storage.Version, meta storage.Meta, body storage.Body) (storage.Version, error) {
	return within(t, func(s storage.Store) (storage.Version, error) { return s.Replace(ctx, key, at, meta, body) })
}

// Get implements [storage.Store]. The body that it returns uses the transaction until it is
// closed.
func (t *txStore) Get(ctx context.Context, key string, offset, length int64) (*storage.Object, error) {
	store, err := t.enter()
	if err != nil {
		return nil, err
	}
	o, err := store.Get(ctx, key, offset, length)
	if err != nil {
		t.leave()
		return nil, t.see(err)
	}
	o.Body = &txBody{ReadCloser: o.Body, leave: sync.OnceFunc(t.leave)}
	return o, nil
}

// A txBody is a body that keeps the transaction open until it is closed.
type txBody struct {
	io.ReadCloser
	leave func()
}

func (b *txBody) Close() error {
	defer b.leave()
	return b.ReadCloser.Close()
}

func (t *txStore) Stat(ctx context.Context, key string) (storage.Info, error) {
	return within(t, func(s storage.Store) (storage.Info, error) { return s.Stat(ctx, key) })
}

// List implements [storage.Store].
func (t *txStore) List(ctx context.Context, prefix, after string) iter.Seq2[storage.Entry, error] {
	return func(yield func(storage.Entry, error) bool) {
		store, err := t.enter()
		if err != nil {
			yield(storage.Entry{}, err)
			return
		}
		defer t.leave()
		for e, err := range store.List(ctx, prefix, after) {
			if !yield(e, t.see(err)) {
				return
			}
		}
	}
}

func (t *txStore) Delete(ctx context.Context, key string) error {
	_, err := within(t, func(s storage.Store) (struct{}, error) { return struct{}{}, s.Delete(ctx, key) })
	return err
}

// Now returns the time of the store's clock, which is that of the database, or the local time if
// the store has no clock.
func (t *txStore) Now(ctx context.Context) (time.Time, error) {
	return within(t, func(s storage.Store) (time.Time, error) { return storage.Now(ctx, s, time.Now) })
}

// Close does nothing, since the store belongs to the transaction.
func (t *txStore) Close() error { return nil }
