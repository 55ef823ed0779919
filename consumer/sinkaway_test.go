package consumer

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/feedctl/feedctl/feed"
)

var errAway = fmt.Errorf("%w: connection refused", ErrSinkUnavailable)

// An awaySink is a sink whose server becomes unavailable for a number of calls.
type awaySink struct {
	*memorySink
	away int
	last func() // called by the last of these calls, if not nil
}

func (s *awaySink) fail() error {
	if s.away == 0 {
		return nil
	}
	if s.away--; s.away == 0 && s.last != nil {
		s.last()
	}
	return errAway
}

func (s *awaySink) Position(ctx context.Context) (feed.Position, error) {
	err := s.fail()
	if ctx.Err() != nil { // the sink cannot tell whether the server is available
		err = errors.New("connection refused")
	}
	if err != nil {
		return feed.Position{}, err
	}
	return s.memorySink.Position(ctx)
}

// TestJobSinkUnavailable makes the server of a sink unavailable for an hour. A job that follows continues
// when the server is back, and applies each entity once.
func TestJobSinkUnavailable(t *testing.T) {
	for name, sunk := range map[string]func(s *awaySink){
		"commit": func(s *awaySink) { s.commit = s.fail },
		"apply":  func(s *awaySink) { s.apply = func(*feed.Entity) error { return s.fail() } },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFeed("a0 b1 | c1")
			f.longPoll = true
			inWorld(t, f, func(t *testing.T, w *world) {
				ctx, cancel := context.WithCancel(t.Context())
				sink := &awaySink{memorySink: &memorySink{t: t}}
				sunk(sink)
				job := Job{URL: feedURL, Client: w.newClient(Config{Follow: true}), Sink: sink}
				job.Progress = func(p Progress) {
					switch p.Entities {
					case 3:
						sink.away = 120
						f.append("d2", "e2")
					case 5:
						cancel()
					}
				}
				begun := time.Now()
				if stats, err := job.Run(ctx); !errors.Is(err, context.Canceled) || stats.Entities != 5 {
					t.Errorf("%+v and error %v", stats, err)
				}
				if away := time.Since(begun); away < 20*time.Minute || away > 2*time.Hour {
					t.Errorf("took %v", away)
				}
				sink.expect("a b c d e")
			})
		})
	}
}

// TestJobSinkUnavailableInterrupted: if a job is ended while its sink is unavailable, it returns only the
// error of its context.
func TestJobSinkUnavailableInterrupted(t *testing.T) {
	inWorld(t, newFeed("a0"), func(t *testing.T, w *world) {
		ctx, cancel := context.WithCancel(t.Context())
		sink := &awaySink{memorySink: &memorySink{t: t}, last: cancel}
		sink.commit = func() error {
			sink.away = 5
			return errAway
		}
		job := Job{URL: feedURL, Client: w.newClient(Config{Follow: true}), Sink: sink}
		if _, err := job.Run(ctx); !errors.Is(err, context.Canceled) || errors.Is(err, ErrSinkUnavailable) {
			t.Errorf("error is %v", err)
		}
	})
}

// TestJobSinkUnavailableEnds: a job that does not follow, or that has a limit of attempts, returns the
// error, so that the caller can try again.
func TestJobSinkUnavailableEnds(t *testing.T) {
	for _, config := range []Config{{}, {Follow: true, Retry: RetryConfig{Attempts: 8}}} {
		inWorld(t, newFeed("a0"), func(t *testing.T, w *world) {
			sink := &awaySink{memorySink: &memorySink{t: t}}
			commits := 0
			sink.commit = func() error { commits++; return errAway }
			if _, err := runJob(t, Job{Client: w.newClient(config), Sink: sink}); !errors.Is(err, ErrSinkUnavailable) || commits != 1 {
				t.Errorf("after %d commits: %v", commits, err)
			}
		})
	}
}
