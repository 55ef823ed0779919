package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/feedctl/feedctl/consumer"
)

// A BackfillTarget does the work of a [consumer.Backfiller], which is a [consumer.Replacer] too.
type BackfillTarget interface {
	ReplaceTarget
	// BeginBackfill is called after Begin.
	BeginBackfill(ctx context.Context) error
	// Recall, Bury, Hold and Release are as in [consumer.Backfill]. After an error only
	// Rollback follows. Commit without a Tail in its position removes all notes.
	Recall(ctx context.Context, keys []string) ([]consumer.Recall, error)
	Bury(ctx context.Context, key string) error
	Hold(ctx context.Context, key string, n int64, patch []byte) error
	Release(ctx context.Context, key string, fn func(patch []byte) error) error
}

// A Backfiller is a [consumer.Backfiller] with a target.
type Backfiller struct {
	*Replacer
	target BackfillTarget
}

// NewBackfiller returns a sink as [New] does.
func NewBackfiller(name string, target BackfillTarget) *Backfiller {
	return &Backfiller{NewReplacer(name, target), target}
}

// OpenBackfiller returns a sink as [Open] does.
func OpenBackfiller(ctx context.Context, name string, target BackfillTarget) (*Backfiller, error) {
	s, err := OpenReplacer(ctx, name, target)
	if err != nil {
		return nil, err
	}
	return &Backfiller{s, target}, nil
}

// BeginBackfill starts a batch.
func (s *Backfiller) BeginBackfill(ctx context.Context) (consumer.Backfill, error) {
	if _, err := s.Begin(ctx); err != nil {
		return nil, err
	}
	b := &backfill{s.batch, s.target}
	if err := s.target.BeginBackfill(ctx); err != nil {
		return nil, fmt.Errorf("begin batch in %s: %w", s.name, errors.Join(s.mark(ctx, err), b.Rollback(ctx)))
	}
	return b, nil
}

// A backfill is a batch of a Backfiller.
type backfill struct {
	*batch
	target BackfillTarget
}

func (b *backfill) Recall(ctx context.Context, keys []string) (recalls []consumer.Recall, err error) {
	err = b.do(ctx, "recall keys", func() (err error) {
		recalls, err = b.target.Recall(ctx, keys)
		return err
	})
	return recalls, err
}

func (b *backfill) Bury(ctx context.Context, key string) error {
	return b.do(ctx, "note deletion", func() error { return b.target.Bury(ctx, key) })
}

func (b *backfill) Hold(ctx context.Context, key string, n int64, patch []byte) error {
	return b.do(ctx, "hold patch", func() error { return b.target.Hold(ctx, key, n, patch) })
}

func (b *backfill) Release(ctx context.Context, key string, fn func(patch []byte) error) error {
	return b.do(ctx, "release patches", func() error { return b.target.Release(ctx, key, fn) })
}
