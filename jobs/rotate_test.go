package jobs_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/internal/jobdb"
	"github.com/feedctl/feedctl/jobs"
)

// rotating has a node in a bubble run jobs that always have more to do. It returns when the runs of each job began,
// as times since the start.
func rotating(t *testing.T, settings jobs.Settings, slots int, lasts time.Duration, documents ...jobs.Document) map[string][]time.Duration {
	t.Helper()
	began := map[string][]time.Duration{}
	synctest.Test(t, func(t *testing.T) {
		db, err := jobdb.Open(t.Context(), "sqlite::memory:", jobdb.Options{Clock: goClock()})
		if err != nil {
			t.Fatal(err)
		}
		kind := busy{began: make(chan string)}
		s := jobs.NewScheduler(db, jobs.Kinds{"fake": kind}, settings)
		apply(t, s, documents...)
		ctx, stop := context.WithTimeout(t.Context(), lasts)
		defer stop()
		var node sync.WaitGroup
		node.Go(func() {
			if err := s.Work(ctx, jobs.WorkerConfig{Name: "node", Slots: slots}); err != nil {
				t.Error(err)
			}
			close(kind.began)
		})
		start := time.Now()
		for name := range kind.began {
			began[name] = append(began[name], time.Since(start))
		}
		node.Wait()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return began
}

// TestRotationByShare: two slots are for a namespace with six jobs that always have more to do, and
// for another with a single such job. The single job uses no more than its namespace's share, so it is not stopped
// for the others, which take turns.
func TestRotationByShare(t *testing.T) {
	t.Parallel()
	settings := jobs.Defaults()
	settings.Interval, settings.MinRunTime, settings.HalfLife = 2*time.Second, 5*time.Second, 30*time.Second
	single := jobs.Document{Namespace: "b", Name: "b", Kind: "fake", Source: "https://b.test", Follow: true}
	documents := []jobs.Document{single}
	for n := range 6 {
		documents = append(documents, jobs.Document{Namespace: "a", Name: fmt.Sprint("a", n), Kind: "fake", Source: fmt.Sprint("https://a", n, ".test"), Follow: true})
	}
	began := rotating(t, settings, 2, 2*time.Minute, documents...)
	if runs := began[single.Name]; len(runs) > 2 {
		t.Errorf("the runs of the single job began after %v, want a single run", runs)
	}
	for _, d := range documents[1:] {
		if runs := began[d.Name]; len(runs) < 2 {
			t.Errorf("the runs of job %s began after %v, want at least two", d.ID(), runs)
		}
	}
}

// TestRotationOfOrigins: two servers are each used by as many jobs as allowed, and another job waits for each of
// them. Both waiting jobs get their turn at the same time.
func TestRotationOfOrigins(t *testing.T) {
	t.Parallel()
	settings := jobs.Defaults()
	settings.PerOrigin = 1
	var documents []jobs.Document
	for n := range 4 {
		documents = append(documents, jobs.Document{Namespace: "n", Name: fmt.Sprint(n), Kind: "fake", Source: fmt.Sprint("https://", n%2, ".test"), Follow: true})
	}
	began := rotating(t, settings, 10, settings.MinRunTime+settings.Interval, documents...)
	for _, d := range documents {
		if len(began[d.Name]) == 0 {
			t.Errorf("job %s has not run within the minimum run time and one interval: %v", d.ID(), began)
		}
	}
}
