package storage

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// As returns the first store that implements T, such as [Watcher], in the chain of wrappers that
// begins with the given store. A wrapper has a method Unwrap() Store that returns the wrapped
// store; interfaces that the wrapper does not implement are used on the wrapped store directly. A
// wrapper that must not be bypassed has no such method.
func As[T any](store Store) (T, bool) {
	for store != nil {
		if t, ok := store.(T); ok {
			return t, true
		}
		wrapper, ok := store.(interface{ Unwrap() Store })
		if !ok {
			break
		}
		store = wrapper.Unwrap()
	}
	var none T
	return none, false
}

// Sync makes the current state of the object at key durable. It does nothing unless the store is a
// [Syncer].
func Sync(ctx context.Context, store Store, key string) error {
	syncer, ok := As[Syncer](store)
	if !ok {
		return nil
	}
	if err := syncer.Sync(ctx, key); err != nil {
		return fmt.Errorf("make %s durable: %w", key, err)
	}
	return nil
}

// Now returns the time of the store's [Clock] or, if the store has none, the result of the function
// now.
func Now(ctx context.Context, store Store, now func() time.Time) (time.Time, error) {
	clock, ok := As[Clock](store)
	if !ok {
		return now(), nil
	}
	t, err := clock.Now(ctx)
	if err != nil {
		return time.Time{}, fmt.Errorf("get the time of the store: %w", err)
	}
	return t, nil
}

// IsPermanent reports whether an operation that failed with err fails again if it is repeated.
func IsPermanent(err error) bool {
	for _, permanent := range []error{ErrFull, ErrPermission, ErrNoStore, ErrKey, ErrMeta, ErrSize, ErrLayout, ErrUnsafe} {
		if errors.Is(err, permanent) {
			return true
		}
	}
	return false
}

// A Locator is a Store that reports whether it is remote.
type Locator interface {
	// Remote reports whether each operation is a round trip over a network. If so,
	// reading ahead and writing in large pieces pay off.
	Remote() bool
}

// Properties says which optional features a store has, beyond [Store].
type Properties struct {
	Remote   bool // is behind a network; see [Locator]
	Watches  bool // is a [Watcher]
	Clock    bool // is a [Clock]
	Sweeps   bool // is a [Sweeper]
	Syncs    bool // is a [Syncer]
	Presigns bool // is a [Presigner]
	Counts   bool // is a [Counter]
	Probes   bool // is a [Prober]
	Names    bool // is a [Namer]
	Recovers bool // is a [Recoverer]
}

// PropertiesOf returns the properties of a store, whether or not it is wrapped.
func PropertiesOf(store Store) Properties {
	locator, ok := As[Locator](store)
	return Properties{
		Remote:   ok && locator.Remote(),
		Watches:  is[Watcher](store),
		Clock:    is[Clock](store),
		Sweeps:   is[Sweeper](store),
		Syncs:    is[Syncer](store),
		Presigns: is[Presigner](store),
		Counts:   is[Counter](store),
		Probes:   is[Prober](store),
		Names:    is[Namer](store),
		Recovers: is[Recoverer](store),
	}
}

func is[T any](store Store) bool {
	_, ok := As[T](store)
	return ok
}
