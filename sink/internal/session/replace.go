package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/feedctl/feedctl/consumer"
)

// A ReplaceTarget does the work of a [consumer.Replacer].
type ReplaceTarget interface {
	Target
	// BeginReplace is called after Begin. BeginReplace and RemoveOthers are as in
	// [consumer.Replacement]. After an error only Rollback follows.
	BeginReplace(ctx context.Context, begins bool) error
	RemoveOthers(ctx context.Context) error
	// Removed is called after Commit.
	Removed() int64
}

// A Replacer is a [consumer.Replacer] with a target.
type Replacer struct {
	*Sink
	target ReplaceTarget
}

// NewReplacer returns a sink as [New] does.
func NewReplacer(name string, target ReplaceTarget) *Replacer {
	return &Replacer{New(name, target), target}
}

// OpenReplacer returns a sink as [Open] does.
func OpenReplacer(ctx context.Context, name string, target ReplaceTarget) (*Replacer, error) {
	s, err := Open(ctx, name, target)
	if err != nil {
		return nil, err
	}
	return &Replacer{s, target}, nil
}

// BeginReplace starts a batch.
func (s *Replacer) BeginReplace(ctx context.Context, begins bool) (consumer.Replacement, error) {
	if _, err := s.Begin(ctx); err != nil {
		return nil, err
	}
	b := &replacement{s.batch, s.target}
	if err := s.target.BeginReplace(ctx, begins); err != nil {
		return nil, fmt.Errorf("begin batch in %s: %w", s.name, errors.Join(s.mark(ctx, err), b.Rollback(ctx)))
	}
	return b, nil
}

// A replacement is a batch of a Replacer.
type replacement struct {
	*batch
	target ReplaceTarget
}

func (b *replacement) RemoveOthers(ctx context.Context) error {
	return b.do(ctx, "remove other keys", func() error { return b.target.RemoveOthers(ctx) })
}

func (b *replacement) Removed() int64 { return b.target.Removed() }
