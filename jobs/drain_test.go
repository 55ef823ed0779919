package jobs_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/internal/jobdb"
	"github.com/feedctl/feedctl/jobs"
)

// slowStop is a kind whose runs take a while to stop, as writes that are under way do.
type slowStop struct {
	fakeKind
	takes time.Duration
}

func (k slowStop) Run(ctx context.Context, _ *jobs.Session) error {
	<-ctx.Done()
	time.Sleep(k.takes)
	return ctx.Err()
}

// TestStopKeepsLease stops a node whose run ends only after the node's lease would have expired:
// other nodes leave the job alone until then.
func TestStopKeepsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		takes := 2 * jobs.Defaults().Lease
		s := inBubble(t, jobs.Kinds{"fake": slowStop{takes: takes}})
		d := jobs.Document{Namespace: "n", Name: "x", Kind: "fake", Source: "s", Follow: true}
		apply(t, s, d)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Work(ctx, jobs.WorkerConfig{Name: "one"}) }()
		time.Sleep(10 * time.Second)
		stop()
		for stopped := time.Now(); time.Since(stopped) < takes; time.Sleep(time.Second) {
			if lost, err := s.Reap(t.Context()); err != nil || lost != 0 {
				t.Errorf("%d jobs adopted %v after the node was told to stop: %v", lost, time.Since(stopped), err)
			}
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		events, err := s.History(t.Context(), d.ID())
		if err != nil {
			t.Fatal(err)
		}
		var types []jobs.EventType
		for _, e := range events {
			types = append(types, e.Type)
		}
		if diff := cmp.Diff([]jobs.EventType{jobs.EventStopped, jobs.EventStarted, jobs.EventAdded}, types); diff != "" {
			t.Error(diff)
		}
		if nodes, err := s.Nodes(t.Context()); err != nil || len(nodes) != 0 {
			t.Errorf("nodes after the end: %v, %v", nodes, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestHungHeartbeat makes a statement of the heartbeat hang, as behind a proxy whose server is gone. The
// node tries again before its lease expires.
func TestHungHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hung := false
		db, err := jobdb.Open(t.Context(), "sqlite::memory:", jobdb.Options{Clock: goClock(), Before: func(ctx context.Context, sql string) {
			if strings.Contains(sql, "SET expires") && !hung {
				hung = true
				<-ctx.Done()
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		s := jobs.NewScheduler(db, fakeKinds, jobs.Defaults())
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Work(ctx, jobs.WorkerConfig{Name: "one"}) }()
		time.Sleep(time.Minute)
		nodes, err := s.Nodes(t.Context())
		if err != nil || !hung || len(nodes) != 1 || nodes[0].Age > jobs.Defaults().Lease {
			t.Errorf("nodes %+v, %v; hung: %v", nodes, err, hung)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}
