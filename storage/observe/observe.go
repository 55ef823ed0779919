// Package observe reports each operation on a store, for metrics and logs.
package observe

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"time"

	"github.com/feedctl/feedctl/storage"
)

// An Operation is a finished operation.
type Operation struct {
	Name string // the method of [storage.Store] in lower case: create, append, replace, get, stat, list, delete
	Key  string // for list, the prefix
	// Took is the duration of the operation; for get, it ends when the body is open; for list, with
	// the first entry or the end.
	Took time.Duration
	Err  error
}

// Failed reports whether the operation returned an error, other than an error about the state of
// the object: [storage.ErrNotFound], [storage.ErrExists] and [storage.ErrConflict].
func (o Operation) Failed() bool {
	return o.Err != nil && !errors.Is(o.Err, storage.ErrNotFound) && !errors.Is(o.Err, storage.ErrExists) && !errors.Is(o.Err, storage.ErrConflict)
}

// Wrap returns a store that calls done, possibly concurrently, after each operation.
// Optional interfaces of the given store remain available and, except for
// [storage.Namer], are not observed; see [storage.As].
func Wrap(store storage.Store, done func(context.Context, Operation)) storage.Store {
	return &observed{store, done}
}

// Log returns a store that logs each operation at level Debug.
func Log(store storage.Store, log *slog.Logger) storage.Store {
	return Wrap(store, func(ctx context.Context, o Operation) {
		attributes := []slog.Attr{slog.String("operation", o.Name), slog.String("key", o.Key), slog.Duration("took", o.Took)}
		if o.Err != nil {
			attributes = append(attributes, slog.Any("error", o.Err))
		}
		log.LogAttrs(ctx, slog.LevelDebug, "store operation", attributes...)
	})
}

type observed struct {
	store storage.Store
	done  func(context.Context, Operation)
}

// observe runs an operation and reports it.
func observe[T any](ctx context.Context, o *observed, name, key string, do func() (T, error)) (T, error) {
	begun := time.Now()
	result, err := do()
	o.done(ctx, Operation{name, key, time.Since(begun), err})
	return result, err
}

// Unwrap returns the wrapped store.
func (o *observed) Unwrap() storage.Store { return o.store }

// Create implements [storage.Store].
func (o *observed) Create(ctx context.Context, key string, meta storage.Meta, body storage.Body) (storage.Version, error) {
	return observe(ctx, o, "create", key, func() (storage.Version, error) { return o.store.Create(ctx, key, meta, body) })
}

// Append implements [storage.Store].
func (o *observed) Append(ctx context.Context, key string, at storage.Version, meta storage.Meta, tail storage.Body) (storage.Version, error) {
	return observe(ctx, o, "append", key, func() (storage.Version, error) { return o.store.Append(ctx, key, at, meta, tail) })
}

// Replace implements [storage.Store].
func (o *observed) Replace(ctx context.Context, key string, at storage.Version, meta storage.Meta, body storage.Body) (storage.Version, error) {
	return observe(ctx, o, "replace", key, func() (storage.Version, error) { return o.store.Replace(ctx, key, at, meta, body) })
}

// Get implements [storage.Store].
func (o *observed) Get(ctx context.Context, key string, offset, length int64) (*storage.Object, error) {
	return observe(ctx, o, "get", key, func() (*storage.Object, error) { return o.store.Get(ctx, key, offset, length) })
}

// Stat implements [storage.Store].
func (o *observed) Stat(ctx context.Context, key string) (storage.Info, error) {
	return observe(ctx, o, "stat", key, func() (storage.Info, error) { return o.store.Stat(ctx, key) })
}

// List implements [storage.Store].
func (o *observed) List(ctx context.Context, prefix, after string) iter.Seq2[storage.Entry, error] {
	return observeEach(ctx, o, prefix, o.store.List(ctx, prefix, after))
}

// Names implements [storage.Namer].
func (o *observed) Names(ctx context.Context, prefix, after string) iter.Seq2[string, error] {
	return observeEach(ctx, o, prefix, storage.Names(ctx, o.store, prefix, after))
}

// observeEach reports a listing when it has ended.
func observeEach[T any](ctx context.Context, o *observed, prefix string, entries iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		begun := time.Now()
		var took time.Duration // time until the first entry; 0 before it
		var failed error
		defer func() {
			if took == 0 {
				took = time.Since(begun)
			}
			o.done(ctx, Operation{"list", prefix, took, failed})
		}()
		for entry, err := range entries {
			if took == 0 {
				took = max(time.Since(begun), 1)
			}
			failed = err
			if !yield(entry, err) {
				return
			}
		}
	}
}

// Delete implements [storage.Store].
func (o *observed) Delete(ctx context.Context, key string) error {
	_, err := observe(ctx, o, "delete", key, func() (struct{}, error) { return struct{}{}, o.store.Delete(ctx, key) })
	return err
}

// Close implements [storage.Store].
func (o *observed) Close() error { return o.store.Close() }
