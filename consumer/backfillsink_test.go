package consumer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"testing"

	"github.com/feedctl/feedctl/feed"
)

// A rowSink keeps one row for each key, and notes. A patch appends to the row's body. The function
// before is called before each step; if it returns an error, the step fails.
type rowSink struct {
	t         *testing.T
	committed rowState
	at        feed.Position
	positions []feed.Position // of all commits
	before    func(step string) error
}

type rowState struct {
	rows   map[string]string
	buried map[string]bool
	held   map[string]map[int64]string
}

func newRowSink(t *testing.T) *rowSink {
	return &rowSink{t: t, committed: rowState{map[string]string{}, map[string]bool{}, map[string]map[int64]string{}}}
}

func (s rowState) clone() rowState {
	held := map[string]map[int64]string{}
	for key, patches := range s.held {
		held[key] = maps.Clone(patches)
	}
	return rowState{maps.Clone(s.rows), maps.Clone(s.buried), held}
}

func (s *rowSink) step(name string) error {
	if s.before == nil {
		return nil
	}
	return s.before(name)
}

func (s *rowSink) Position(context.Context) (feed.Position, error) {
	at := s.at
	at.Tail = copyTail(at.Tail)
	return at, s.step("position")
}

func (s *rowSink) Close() error { return nil }

func (s *rowSink) Begin(ctx context.Context) (Batch, error) { return s.BeginBackfill(ctx) }

func (s *rowSink) BeginBackfill(context.Context) (Backfill, error) {
	return &rowBatch{s, s.committed.clone()}, s.step("begin")
}

type rowBatch struct {
	s *rowSink
	rowState
}

var errNoRow = errors.New("there is no row to patch")

func (b *rowBatch) Apply(_ context.Context, e *feed.Entity) error {
	if err := b.s.step("apply"); err != nil {
		return err
	}
	body := e.Body
	if e.Stream != nil {
		var err error
		if body, err = io.ReadAll(e.Stream); err != nil {
			return err
		}
	}
	key := e.Key()
	switch e.Operation {
	case feed.Delete:
		delete(b.rows, key)
	case feed.Patch:
		if _, ok := b.rows[key]; !ok {
			return errNoRow
		}
		b.rows[key] += string(body)
	default:
		b.rows[key] = string(body)
	}
	return nil
}

func (b *rowBatch) Recall(_ context.Context, keys []string) (recalls []Recall, err error) {
	for _, key := range keys {
		_, known := b.rows[key]
		recalls = append(recalls, Recall{known || b.buried[key], int64(len(b.held[key]))})
	}
	return recalls, b.s.step("recall")
}

func (b *rowBatch) Bury(_ context.Context, key string) error {
	b.buried[key] = true
	return b.s.step("bury")
}

func (b *rowBatch) Hold(_ context.Context, key string, n int64, patch []byte) error {
	if b.held[key] == nil {
		b.held[key] = map[int64]string{}
	}
	if _, twice := b.held[key][n]; twice {
		b.s.t.Errorf("patch %d of %s is held twice", n, key)
	}
	b.held[key][n] = string(patch)
	return b.s.step("hold")
}

func (b *rowBatch) Release(_ context.Context, key string, fn func([]byte) error) error {
	for _, n := range slices.Sorted(maps.Keys(b.held[key])) {
		if fn == nil {
			break
		}
		if err := fn([]byte(b.held[key][n])); err != nil {
			return err
		}
	}
	delete(b.held, key)
	return b.s.step("release")
}

func (b *rowBatch) Commit(_ context.Context, at feed.Position) error {
	if err := b.s.step("commit"); err != nil {
		return err
	}
	if at.Tail == nil {
		b.buried, b.held = map[string]bool{}, map[string]map[int64]string{}
	}
	b.s.committed, b.s.at = b.rowState, at
	b.s.positions = append(b.s.positions, at)
	return b.s.step("committed")
}

func (b *rowBatch) Rollback(context.Context) error { return nil }

// expect compares the rows, and checks that no notes are left.
func (s *rowSink) expect(want map[string]string) {
	s.t.Helper()
	if got := s.committed.rows; !maps.Equal(got, want) {
		s.t.Fatalf("sink has %v\nwant %v", got, want)
	}
	if len(s.committed.buried)+len(s.committed.held) > 0 {
		s.t.Fatalf("notes are left: %v, %v", s.committed.buried, s.committed.held)
	}
}

// folded returns the rows that result from applying all entities of a feed in order.
func (f *testFeed) folded(t *testing.T) map[string]string {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	sink := newRowSink(t)
	batch := &rowBatch{sink, sink.committed}
	for _, p := range f.pages {
		for i := range p.entities {
			if err := batch.Apply(t.Context(), &p.entities[i]); err != nil {
				t.Fatal(err)
			}
		}
	}
	return batch.rows
}

// operation returns an entity with the given operation and key, and a unique body.
func operation(n int, what feed.Operation, key string) feed.Entity {
	e := feed.Entity{ContentID: fmt.Sprintf("<%d>", n), Operation: what, LastModified: second(n / 3), ContentType: "text/plain",
		ContentLocation: key, Body: fmt.Appendf(nil, "%s%d;", bytes.ToLower([]byte(what[:2])), n)}
	if what == feed.Delete {
		e.Body = nil
	}
	return e
}
