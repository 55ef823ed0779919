package consumer

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/feed"
)

// A memorySink records what was committed, and checks that the job keeps to the contract of a sink.
type memorySink struct {
	t       *testing.T
	got     []string // Content-IDs, or keys of entities without one
	keys    []string
	at      feed.Position
	commits []int // how many entities each commit contained
	open    *memoryBatch
	apply   func(e *feed.Entity) error // called before each Apply
	commit  func() error
}

type memoryBatch struct {
	s      *memorySink
	got    []string
	keys   []string
	failed bool
	ended  bool
}

func (s *memorySink) Position(context.Context) (feed.Position, error) { return s.at, nil }

func (s *memorySink) Close() error { return nil }

func (s *memorySink) Begin(context.Context) (Batch, error) {
	if s.open != nil {
		s.t.Error("two batches are open")
	}
	s.open = &memoryBatch{s: s}
	return s.open, nil
}

func (b *memoryBatch) Apply(ctx context.Context, e *feed.Entity) error {
	if b.ended || b.failed {
		b.s.t.Error("Apply after the end or an error")
	}
	err := ctx.Err()
	if err == nil && b.s.apply != nil {
		err = b.s.apply(e)
	}
	if err == nil && e.Stream != nil {
		_, err = io.Copy(io.Discard, e.Stream)
	}
	if b.failed = err != nil; errors.Is(err, ErrSinkUnavailable) {
		return err
	} else if err != nil {
		return errors.New("sink: " + err.Error()) // as from a sink that does not wrap errors
	}
	id := e.ContentID
	if id == "" {
		id = e.ContentLocation
	}
	b.got = append(b.got, id)
	b.keys = append(b.keys, e.ContentLocation)
	return nil
}

func (b *memoryBatch) Commit(ctx context.Context, at feed.Position) error {
	if b.failed {
		b.s.t.Error("Commit of a batch after an error")
	}
	if b.s.commit != nil {
		if err := b.s.commit(); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	b.s.got, b.s.keys, b.s.at = append(b.s.got, b.got...), append(b.s.keys, b.keys...), at
	b.s.commits = append(b.s.commits, len(b.got))
	b.ended, b.s.open = true, nil
	return nil
}

func (b *memoryBatch) Rollback(context.Context) error {
	if !b.ended {
		b.ended, b.s.open = true, nil
	}
	return nil
}

func (s *memorySink) expect(want string) {
	s.t.Helper()
	if got := strings.Join(s.got, " "); got != want {
		s.t.Errorf("sink has %q, want %q", got, want)
	}
	if s.open != nil {
		s.t.Error("a batch is still open")
	}
}
