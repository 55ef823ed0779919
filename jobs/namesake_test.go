package jobs_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/feedctl/feedctl/internal/jobdb"
	"github.com/feedctl/feedctl/jobs"
)

// TestNamesakes: a second node with the same name joins while the first is alive, and after the
// first was killed.
func TestNamesakes(t *testing.T) {
	eachDatabase(t, fakeKinds, func(t *testing.T, db *jobdb.DB, s *jobs.Scheduler) {
		clock := epoch
		join := func() jobs.Node {
			clock = clock.Add(time.Second)
			exec(t, db, "UPDATE @clock SET at = $1", clock.UnixMicro())
			n, err := s.Join(t.Context(), jobs.Node{Name: "node", Slots: 1})
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		beat := func(n jobs.Node, want error) {
			t.Helper()
			clock = clock.Add(time.Second)
			exec(t, db, "UPDATE @clock SET at = $1", clock.UnixMicro())
			if err := s.Heartbeat(t.Context(), n); !errors.Is(err, want) {
				t.Errorf("got %v, want %v", err, want)
			}
		}
		first := join()
		beat(first, nil)
		second := join()
		beat(second, nil) // the first may have been killed
		beat(first, nil)
		beat(second, jobs.ErrNamesake)
		if err := s.Leave(t.Context(), second); err != nil {
			t.Fatal(err)
		}
		beat(first, nil)
		third := join()
		beat(third, nil) // the first is silent from now on
		beat(third, nil)
	})
}

// TestNamesakeEnds: if two nodes with the same name work at the same time, the one that joined later ends.
func TestNamesakeEnds(t *testing.T) {
	t.Parallel()
	s, err := jobs.Open(t.Context(), "sqlite::memory:", fakeKinds, jobs.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() { first <- s.Work(ctx, jobs.WorkerConfig{Name: "node", Slots: 1}) }()
	for ticks := time.Tick(20 * time.Millisecond); ; <-ticks {
		if nodes, err := s.Nodes(t.Context()); err != nil || len(nodes) > 0 {
			break
		}
	}
	if err := s.Work(ctx, jobs.WorkerConfig{Name: "node", Slots: 1}); !errors.Is(err, jobs.ErrNamesake) {
		t.Errorf("the second node ends with %v", err)
	}
	select {
	case err := <-first:
		t.Errorf("the first node ends: %v", err)
	default:
	}
	stop()
	if err := <-first; err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
