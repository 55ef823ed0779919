package producer_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/storage"
)

// errLost is returned to a writer that does not learn the outcome of its operation.
var errLost = errors.New("connection lost")

// A scheduler decides when the operations of many writers take effect, and what the writers learn:
// either the outcome, or nothing, while the operation takes effect now, later or never.
type scheduler struct {
	base storage.Store
	rnd  *rand.Rand

	mu      sync.Mutex
	pending []*operation
}

// An operation is a request in flight.
type operation struct {
	writer   *writer
	name     string
	do       func() error
	read     bool
	answered bool
	answer   chan error
}

// A writer is the store as used by one producer.
type writer struct {
	*scheduler
	name    string
	dead    bool
	noTurns bool // whether the producer does not use the list of turns, like those of older versions
}

// call submits an operation, and waits until the scheduler answers.
func (w *writer) call(name string, read bool, do func() error) error {
	op := &operation{writer: w, name: name, do: do, read: read, answer: make(chan error, 1)}
	w.mu.Lock()
	if w.dead {
		w.mu.Unlock()
		return errLost
	}
	w.pending = append(w.pending, op)
	w.mu.Unlock()
	return <-op.answer
}

// waiting returns the operations that have not taken effect yet, in an order that does not depend
// on how goroutines are scheduled.
func (s *scheduler) waiting() []*operation {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.SortStableFunc(s.pending, func(a, b *operation) int {
		return cmp.Or(cmp.Compare(a.writer.name, b.writer.name), cmp.Compare(a.name, b.name))
	})
	return slices.Clone(s.pending)
}

func (s *scheduler) drop(op *operation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending = slices.DeleteFunc(s.pending, func(o *operation) bool { return o == op })
}

// land makes an operation take effect, and returns the outcome to the writer if the writer still
// waits for it.
func (s *scheduler) land(op *operation) string {
	s.drop(op)
	err := op.do()
	late := op.answered
	op.tell(err)
	return fmt.Sprintf("%s %s late=%v: %v", op.writer.name, op.name, late, err)
}

func (op *operation) tell(err error) {
	if !op.answered {
		op.answered = true
		op.answer <- err
	}
}

// lose makes an operation fail with errLost. Unless never is true, a write may still take effect
// later.
func (s *scheduler) lose(op *operation, never bool) {
	op.tell(errLost)
	if op.read || never {
		s.drop(op)
	}
}

// die ends a writer. Operations of the writer may still take effect.
func (s *scheduler) die(w *writer) {
	s.mu.Lock()
	w.dead = true // set before lose is called, after which the writer would begin its next operation
	s.mu.Unlock()
	for _, op := range s.waiting() {
		if op.writer == w {
			s.lose(op, s.rnd.IntN(2) == 0)
		}
	}
}

// copied returns a copy of a body. The body is read at once, because the operation may take effect
// after its writer has ended.
func copied(b storage.Body) storage.Body {
	r, err := b.Open()
	if err != nil {
		panic(err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		panic(err)
	}
	return storage.Bytes(data)
}

func (w *writer) write(name, key string, do func(context.Context) (storage.Version, error)) (v storage.Version, err error) {
	var landed storage.Version
	err = w.call(name+" "+key, false, func() (err error) {
		landed, err = do(context.Background())
		return err
	})
	if err == nil {
		v = landed
	}
	return v, err
}

func (w *writer) Create(_ context.Context, key string, meta storage.Meta, body storage.Body) (storage.Version, error) {
	body = copied(body)
	return w.write("create", key, func(ctx context.Context) (storage.Version, error) { return w.base.Create(ctx, key, meta, body) })
}

func (w *writer) Append(_ context.Context, key string, at storage.Version, meta storage.Meta, tail storage.Body) (storage.Version, error) {
	tail = copied(tail)
	return w.write("append", key, func(ctx context.Context) (storage.Version, error) { return w.base.Append(ctx, key, at, meta, tail) })
}

func (w *writer) Replace(_ context.Context, key string, at storage.Version, meta storage.Meta, body storage.Body) (storage.Version, error) {
	body = copied(body)
	return w.write("replace", key, func(ctx context.Context) (storage.Version, error) {
		return w.base.Replace(ctx, key, at, meta, body)
	})
}

func (w *writer) Get(ctx context.Context, key string, offset, length int64) (o *storage.Object, err error) {
	err = w.call("get "+key, true, func() (err error) {
		o, err = w.base.Get(ctx, key, offset, length)
		return err
	})
	if err != nil {
		return nil, err
	}
	return o, nil
}

func (w *writer) Stat(ctx context.Context, key string) (info storage.Info, err error) {
	if w.noTurns && key == layout.FeedTurns(testFeed) {
		return info, storage.ErrPermission
	}
	err = w.call("stat "+key, true, func() (err error) {
		info, err = w.base.Stat(ctx, key)
		return err
	})
	return info, err
}

func (w *writer) List(ctx context.Context, prefix, after string) iter.Seq2[storage.Entry, error] {
	return w.base.List(ctx, prefix, after)
}

func (w *writer) Delete(ctx context.Context, key string) error { return w.base.Delete(ctx, key) }

func (w *writer) Close() error { return nil }
