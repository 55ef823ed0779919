package session_test

import (
	"context"
	"errors"
	"testing"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/sink/internal/session"
)

var errDown = errors.New("connection refused")

// A target fails in one of its methods.
type target struct {
	fails string
	err   error
}

func (t *target) do(method string) error {
	if method == t.fails {
		return t.err
	}
	return nil
}

func (t *target) Begin(context.Context) error                 { return t.do("begin") }
func (t *target) Apply(context.Context, *feed.Entity) error   { return t.do("apply") }
func (t *target) Commit(context.Context, feed.Position) error { return t.do("commit") }
func (t *target) Rollback(context.Context) error              { return nil }
func (t *target) Recover(context.Context) (feed.Position, error) {
	return feed.Position{}, t.do("recover")
}
func (t *target) Close() error               { return nil }
func (t *target) Unavailable(err error) bool { return errors.Is(err, errDown) }

// write opens a sink and writes an entity.
func write(ctx context.Context, t *target) error {
	s, err := session.Open(context.WithoutCancel(ctx), "test", t)
	if err != nil {
		return err
	}
	defer s.Close()
	b, err := s.Begin(ctx)
	if err != nil {
		return err
	}
	if err := b.Apply(context.WithoutCancel(ctx), &feed.Entity{}); err != nil {
		return err
	}
	return b.Commit(ctx, feed.Position{})
}

// TestUnavailable: errors show whether the server is unavailable, whichever call notices it.
func TestUnavailable(t *testing.T) {
	for _, method := range []string{"recover", "begin", "apply", "commit"} {
		if err := write(t.Context(), &target{method, errDown}); !errors.Is(err, consumer.ErrSinkUnavailable) || !errors.Is(err, errDown) {
			t.Errorf("%s: %v", method, err)
		}
		other := errors.New("forbidden")
		if err := write(t.Context(), &target{method, other}); !errors.Is(err, other) || errors.Is(err, consumer.ErrSinkUnavailable) {
			t.Errorf("%s: %v", method, err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := write(ended, &target{"commit", errDown}); !errors.Is(err, errDown) || errors.Is(err, consumer.ErrSinkUnavailable) {
		t.Errorf("after the end of the context: %v", err)
	}
}
