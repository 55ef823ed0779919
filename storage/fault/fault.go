// Package fault makes a [storage.Store] fail on demand, for tests of code that uses the store.
package fault

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"

	"github.com/feedctl/feedctl/storage"
)

// ErrInjected is matched by every error of this package. It matches no error of package storage, so
// the caller must treat the outcome of the operation as unknown.
var ErrInjected = errors.New("injected fault")

// A Verb names a method of [storage.Store].
type Verb string

// The verbs.
const (
	Create  Verb = "create"
	Append  Verb = "append"
	Replace Verb = "replace"
	Get     Verb = "get"
	Stat    Verb = "stat"
	List    Verb = "list"
	Delete  Verb = "delete"
)

// Writes reports whether the verb changes the store.
func (v Verb) Writes() bool {
	return v == Create || v == Append || v == Replace || v == Delete
}

// An Op is an operation about to be performed.
type Op struct {
	Verb Verb
	Key  string // for List, the prefix
	N    int    // 1 for the first operation on the store, 2 for the next
}

func (op Op) String() string { return fmt.Sprintf("%s %s (operation %d)", op.Verb, op.Key, op.N) }

// An Outcome is the outcome of an operation: [Pass], [Lost], [Landed], or a [Late].
type Outcome interface {
	outcome()
}

type immediate string

func (immediate) outcome() {}

const (
	// Pass means that the operation is performed, and its result is returned.
	Pass immediate = "pass"
	// Lost means that the operation is not performed, and an error is returned.
	Lost immediate = "lost"
	// Landed means that the operation is performed, but an error is returned regardless of its
	// result.
	Landed immediate = "landed"
)

// Wrap returns a store that calls decide, possibly concurrently, before each operation
// to determine its outcome. The optional interfaces of the given store remain available
// through [storage.As]. Of these, only [storage.Namer] is made to fail.
func Wrap(store storage.Store, decide func(Op) Outcome) storage.Store {
	return &faulty{store: store, decide: decide}
}

type faulty struct {
	store  storage.Store
	decide func(Op) Outcome
	n      atomic.Int64
}

// do determines the outcome of an operation and acts on it. To perform the operation now, it calls
// the function do. If the operation may land later, it calls keep, which returns a function that
// performs the operation at that time.
func (f *faulty) do(verb Verb, key string, do func() error, keep func() (func(context.Context) error, error)) error {
	op := Op{Verb: verb, Key: key, N: int(f.n.Add(1))}
	outcome := f.decide(op)
	switch outcome {
	case Pass:
		return do()
	case Lost:
		return fmt.Errorf("%v: %w: it is lost", op, ErrInjected)
	case Landed:
		_ = do() // the caller must not see the result
		return fmt.Errorf("%v: %w: it has landed", op, ErrInjected)
	}
	late, ok := outcome.(*Late)
	if !ok || keep == nil {
		panic(fmt.Sprintf("fault: outcome %v is not possible for %v", outcome, op))
	}
	land, err := keep()
	if err != nil {
		return err
	}
	late.hold(op, land)
	return fmt.Errorf("%v: %w: it may land later", op, ErrInjected)
}

// write is like do, for the three verbs with a body.
func (f *faulty) write(ctx context.Context, verb Verb, key string, meta storage.Meta, body storage.Body,
	send func(context.Context, storage.Meta, storage.Body) (storage.Version, error),
) (version storage.Version, err error) {
	err = f.do(verb, key,
		func() (err error) {
			version, err = send(ctx, meta, body)
			return err
		},
		func() (func(context.Context) error, error) {
			meta, body, err := keep(meta, body)
			return func(ctx context.Context) error {
				_, err := send(ctx, meta, body)
				return err
			}, err
		})
	if err != nil {
		return "", err
	}
	return version, nil
}

func (f *faulty) Create(ctx context.Context, key string, meta storage.Meta, body storage.Body) (storage.Version, error) {
	return f.write(ctx, Create, key, meta, body, func(ctx context.Context, meta storage.Meta, body storage.Body) (storage.Version, error) {
		return f.store.Create(ctx, key, meta, body)
	})
}

func (f *faulty) Append(ctx context.Context, key string, at storage.Version, meta storage.Meta, tail storage.Body) (storage.Version, error) {
	return f.write(ctx, Append, key, meta, tail, func(ctx context.Context, meta storage.Meta, tail storage.Body) (storage.Version, error) {
		return f.store.Append(ctx, key, at, meta, tail)
	})
}

func (f *faulty) Replace(ctx context.Context, key string, at storage.Version, meta storage.Meta, body storage.Body) (storage.Version, error) {
	return f.write(ctx, Replace, key, meta, body, func(ctx context.Context, meta storage.Meta, body storage.Body) (storage.Version, error) {
		return f.store.Replace(ctx, key, at, meta, body)
	})
}

func (f *faulty) Delete(ctx context.Context, key string) error {
	remove := func(ctx context.Context) error { return f.store.Delete(ctx, key) }
	return f.do(Delete, key,
		func() error { return remove(ctx) },
		func() (func(context.Context) error, error) { return remove, nil })
}

func (f *faulty) Get(ctx context.Context, key string, offset, length int64) (object *storage.Object, err error) {
	err = f.do(Get, key, func() (err error) {
		object, err = f.store.Get(ctx, key, offset, length)
		return err
	}, nil)
	if err != nil && object != nil {
		object.Body.Close()
		return nil, err
	}
	return object, err
}

func (f *faulty) Stat(ctx context.Context, key string) (info storage.Info, err error) {
	err = f.do(Stat, key, func() (err error) {
		info, err = f.store.Stat(ctx, key)
		return err
	}, nil)
	if err != nil {
		return storage.Info{}, err
	}
	return info, nil
}

// List implements [storage.Store]. It is made to fail before the first entry or not at all.
func (f *faulty) List(ctx context.Context, prefix, after string) iter.Seq2[storage.Entry, error] {
	return func(yield func(storage.Entry, error) bool) {
		if err := f.do(List, prefix, func() error { return nil }, nil); err != nil {
			yield(storage.Entry{}, err)
			return
		}
		f.store.List(ctx, prefix, after)(yield)
	}
}

// Names implements [storage.Namer]. It fails as List does.
func (f *faulty) Names(ctx context.Context, prefix, after string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if err := f.do(List, prefix, func() error { return nil }, nil); err != nil {
			yield("", err)
			return
		}
		storage.Names(ctx, f.store, prefix, after)(yield)
	}
}

// Unwrap returns the wrapped store.
func (f *faulty) Unwrap() storage.Store { return f.store }

func (f *faulty) Close() error { return f.store.Close() }
