package jobs_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/jobs"
)

// TestLingering: while a slot is free, one run has caught up, and another has more to do. Only the latter
// ends at the limit, and its job is due again at once.
func TestLingering(t *testing.T) {
	t.Parallel()
	settings := jobs.Defaults()
	k := newTurns(0)
	inTurns(t, k, settings, 3, func(t *testing.T, s *jobs.Scheduler) {
		active, idle := turning("n", "active", true), turning("n", "idle", true)
		apply(t, s, active, idle)
		for range 25 {
			time.Sleep(time.Minute)
			if j, err := s.Get(t.Context(), idle.ID()); err != nil || j.State != jobs.Running {
				t.Fatalf("job %s is %s (%v), want running", idle.ID(), j.State, err)
			}
		}
		time.Sleep(50 * time.Minute) // longer than the queue waits for runs that have a limit
		if cut := k.cuts(idle.ID()); cut != 0 {
			t.Errorf("the run that has caught up was ended %d times", cut)
		}
		began := k.runs(active.ID())
		if len(began) < 7 {
			t.Errorf("%d runs of the job that has more to do, want one every %v", len(began), settings.RunLimit)
		}
		for n, at := range began[1:] {
			if took := at.Sub(began[n]); took < settings.RunLimit || took > settings.RunLimit+3*time.Second {
				t.Errorf("a run began %v after the previous one, want %v", took, settings.RunLimit)
			}
		}
	})
}

// TestQuiet: a run that has caught up, and then makes no progress, ends, and another run checks at once
// whether there is more to do.
func TestQuiet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var mu sync.Mutex
		var began []time.Time
		kind := reporting{run: func(ctx context.Context, s *jobs.Session) error {
			if !s.Linger {
				mu.Lock()
				began = append(began, time.Now())
				mu.Unlock()
				return nil
			}
			s.CaughtUp()
			<-ctx.Done()
			return ctx.Err()
		}}
		s := inBubble(t, jobs.Kinds{"fake": kind})
		apply(t, s, jobs.Document{Namespace: "n", Name: "job", Kind: "fake", Source: "s", Follow: true})
		done := make(chan error)
		go func() { done <- s.Work(ctx, jobs.WorkerConfig{Name: "node"}) }()
		time.Sleep(12 * time.Minute)
		mu.Lock()
		if len(began) != 3 {
			t.Errorf("%d runs in 12 minutes, want one every 5 minutes", len(began))
		}
		mu.Unlock()
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestBehind: a run was up to date for some time when its server fails. The lag of the job is counted from
// the failure, not from the start of the run.
func TestBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		kind := reporting{run: func(_ context.Context, s *jobs.Session) error {
			if !s.Linger {
				return nil
			}
			for range 20 {
				s.CaughtUp()
				time.Sleep(time.Minute)
			}
			s.Busy()
			time.Sleep(3 * time.Minute)
			return errBad
		}}
		settings := jobs.Defaults()
		settings.Backoff = jobs.Backoff{Min: time.Hour, Max: time.Hour}
		s := inBubbleWith(t, jobs.Kinds{"fake": kind}, settings)
		apply(t, s, jobs.Document{Namespace: "n", Name: "job", Kind: "fake", Source: "s", Follow: true, Metrics: true})
		done := make(chan error)
		go func() { done <- s.Work(ctx, jobs.WorkerConfig{Name: "node"}) }()
		time.Sleep(24*time.Minute + 30*time.Second)
		lags, _, err := s.Lags(t.Context(), 1)
		if err != nil || len(lags) != 1 {
			t.Fatalf("lags %v, %v", lags, err)
		}
		if lag := lags[0].Lag; lag < 4*time.Minute || lag > 5*time.Minute {
			t.Errorf("the lag is %v, want the time since there was more to do, 4 to 5 minutes", lag)
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

// TestBehindOfLost: nodes are lost hours after their jobs began. One of the jobs had caught up.
func TestBehindOfLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := inBubble(t, fakeKinds)
		node, err := s.Join(t.Context(), jobs.Node{Name: "a", Slots: 2})
		if err != nil {
			t.Fatal(err)
		}
		current, behind := follower("current", "s", ""), follower("behind", "u", "")
		current.Metrics, behind.Metrics = true, true
		apply(t, s, current, behind)
		runs, err := s.Admit(t.Context(), node, 2)
		if err != nil || len(runs) != 2 {
			t.Fatalf("%d runs, %v", len(runs), err)
		}
		for _, r := range runs {
			stats := jobs.Stats{Pending: -1, Lag: -1}
			if r.Job.Document.Name == "current" {
				stats = jobs.Stats{}
			}
			if err := jobs.Report(t.Context(), s, r, stats); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Hour)
		if err := s.Heartbeat(t.Context(), node); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if adopted, err := s.Reap(t.Context()); err != nil || adopted != 2 {
			t.Fatalf("%d jobs were adopted, %v", adopted, err)
		}
		lags, _, err := s.Lags(t.Context(), 2)
		if err != nil || len(lags) != 2 {
			t.Fatalf("lags %v, %v", lags, err)
		}
		for n, want := range []time.Duration{61 * time.Minute, time.Minute} {
			if got := lags[n].Lag; got != want {
				t.Errorf("the lag of job %s is %v, want %v", lags[n].Name, got, want)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}
