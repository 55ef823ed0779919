// Package session enforces the order of calls that [consumer.Sink] requires, so
// that a sink need not.
package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/sink"
)

// A Target does the work of a sink. Its methods are called only in the right
// order.
type Target interface {
	// Begin is called before the first Apply or Commit of a batch.
	Begin(ctx context.Context) error
	// Apply applies an entity. After an error only Rollback follows.
	Apply(ctx context.Context, e *feed.Entity) error
	// Commit ends a batch. It may succeed after the context of Apply has ended. After an
	// error only Recover or Close follows.
	Commit(ctx context.Context, at feed.Position) error
	// Rollback ends a batch. After an error only Recover or Close follows.
	Rollback(ctx context.Context) error
	// Recover restores the target to the last commit after any error, and returns
	// the position of that commit.
	Recover(ctx context.Context) (feed.Position, error)
	// Close releases the target's resources. It may be called within a batch.
	Close() error
}

// A Remote is a Target on a server. The errors of its sink match [consumer.ErrSinkUnavailable] while
// the server is unavailable.
type Remote interface {
	Target
	// Unavailable reports whether an error of the target means that the server is unavailable at the
	// moment.
	Unavailable(err error) bool
}

// A GuardTarget can make a batch fail if rows have changed.
type GuardTarget interface {
	Target
	// Expect is called before Apply for a key. Expect, or Commit, returns a [*sink.ChangedError] unless the
	// key still has the given row, or still has none if the row is nil.
	Expect(ctx context.Context, key string, was *sink.Row) error
}

// A Sink is a [consumer.Sink] with a target.
type Sink struct {
	name     string
	target   Target
	position feed.Position
	batch    *batch // the open one, or nil
	opened   bool   // the target has been recovered
	broken   error  // first error since the target was last recovered
}

var errClosed = errors.New("the sink is closed")

// New returns a sink with a target, which the first call of [Sink.Position] recovers. The
// name is for errors.
func New(name string, target Target) *Sink {
	return &Sink{name: name, target: target, broken: errors.New("it has not been opened yet")}
}

// Open recovers the target and returns a sink with it. It closes the target if it returns
// an error.
func Open(ctx context.Context, name string, target Target) (*Sink, error) {
	s := New(name, target)
	if _, err := s.Position(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Position returns the position of the last commit. If a commit or a rollback
// failed, it recovers the target first.
func (s *Sink) Position(ctx context.Context) (feed.Position, error) {
	if s.target == nil {
		return feed.Position{}, errClosed
	}
	if s.broken != nil {
		position, err := s.target.Recover(ctx)
		err = s.mark(ctx, err)
		if err != nil && !s.opened {
			return feed.Position{}, fmt.Errorf("open sink %s: %w", s.name, err)
		}
		if err != nil {
			return feed.Position{}, fmt.Errorf("recover sink %s: %w", s.name, err)
		}
		s.position, s.opened, s.broken = position, true, nil
	}
	return s.position, nil
}

// Begin starts a batch.
func (s *Sink) Begin(ctx context.Context) (consumer.Batch, error) {
	switch {
	case s.target == nil:
		return nil, errClosed
	case s.broken != nil:
		return nil, fmt.Errorf("begin batch: Position must be called first: %w", s.broken)
	case s.batch != nil:
		return nil, errors.New("begin batch: the previous one is still open")
	}
	if err := s.target.Begin(ctx); err != nil {
		return nil, fmt.Errorf("begin batch in %s: %w", s.name, s.mark(ctx, err))
	}
	s.batch = &batch{sink: s}
	return s.batch, nil
}

// mark makes an error match [consumer.ErrSinkUnavailable] if the server of the target is unavailable.
func (s *Sink) mark(ctx context.Context, err error) error {
	if r, ok := s.target.(Remote); ok && err != nil && ctx.Err() == nil && r.Unavailable(err) {
		return fmt.Errorf("%w: %w", consumer.ErrSinkUnavailable, err)
	}
	return err
}

// Close closes the target.
func (s *Sink) Close() error {
	if s.target == nil {
		return nil
	}
	target := s.target
	s.target, s.batch = nil, nil
	if err := target.Close(); err != nil {
		return fmt.Errorf("close sink %s: %w", s.name, err)
	}
	return nil
}

// A batch is open as long as it is the current batch of its sink.
type batch struct {
	sink *Sink
	err  error // of the entity that was not applied
}

var errEnded = errors.New("the batch has ended")

func (b *batch) Apply(ctx context.Context, e *feed.Entity) error {
	if b.sink.batch != b {
		return errEnded
	}
	if b.err != nil {
		return b.err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := b.sink.target.Apply(ctx, e); err != nil {
		b.err = fmt.Errorf("apply entity %q to %s: %w", e.ContentID, b.sink.name, b.sink.mark(ctx, err))
	}
	return b.err
}

// Expect makes the batch fail unless a key still has the given row, or still has none if the row is nil. If
// the target cannot check this, the error is [errors.ErrUnsupported].
func (b *batch) Expect(ctx context.Context, key string, was *sink.Row) error {
	target, ok := b.sink.target.(GuardTarget)
	switch {
	case !ok:
		return errors.ErrUnsupported
	case b.sink.batch != b:
		return errEnded
	case b.err != nil:
		return b.err
	}
	if err := target.Expect(ctx, key, was); err != nil {
		b.err = fmt.Errorf("check key %q in %s: %w", key, b.sink.name, b.sink.mark(ctx, err))
	}
	return b.err
}

// do calls f while the batch is open.
func (b *batch) do(ctx context.Context, what string, f func() error) error {
	switch {
	case b.sink.batch != b:
		return errEnded
	case b.err != nil:
		return b.err
	}
	if err := f(); err != nil {
		b.err = fmt.Errorf("%s in %s: %w", what, b.sink.name, b.sink.mark(ctx, err))
	}
	return b.err
}

func (b *batch) Commit(ctx context.Context, at feed.Position) error {
	s := b.sink
	if s.batch != b {
		return errEnded
	}
	if b.err != nil {
		return fmt.Errorf("commit batch: an entity was not applied: %w", b.err)
	}
	s.batch = nil
	if err := s.target.Commit(ctx, at); err != nil {
		s.broken = fmt.Errorf("commit to %s: %w", s.name, s.mark(ctx, err))
		return s.broken
	}
	s.position = at
	return nil
}

func (b *batch) Rollback(ctx context.Context) error {
	s := b.sink
	if s.batch != b {
		return nil
	}
	s.batch = nil
	if err := s.target.Rollback(ctx); err != nil {
		s.broken = fmt.Errorf("roll back %s: %w", s.name, err)
		return s.broken
	}
	return nil
}
