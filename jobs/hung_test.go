package jobs_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/internal/jobdb"
	"github.com/feedctl/feedctl/jobs"
	"github.com/feedctl/feedctl/jobs/watch"
)

// rounds is an observer that records the rounds of loops.
type rounds struct {
	jobs.Observer
	mu     sync.Mutex
	failed map[string][]time.Duration // how long rounds with errors took, by loop
	ok     map[string]int             // rounds without an error, after the last one with an error
}

func (r *rounds) Looped(loop string, took time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ok[loop]++
	if err != nil {
		r.ok[loop] = 0
		r.failed[loop] = append(r.failed[loop], took)
	}
}

// source is a source of changes that reports a change of one name every few seconds.
type source struct{ fails bool }

func (s source) Watch(ctx context.Context, w *watch.Watched) error {
	if s.fails {
		return errBad
	}
	for n := 0; ; n++ {
		if _, err := w.Jobs.States(ctx); err != nil {
			return err
		}
		if err := w.Jobs.Changed(ctx, map[string]string{"x": time.Now().String()}); err != nil {
			return err
		}
		w.Jobs.Checked("")
		select {
		case <-time.After(5 * time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// TestHung makes a statement of each loop of a node hang, as behind a proxy whose server is gone. The
// loop tries again within 10 s, and the failure is counted.
func TestHung(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		loop, statement string
		source          source
	}{
		{"heartbeat", "UPDATE @node SET expires", source{}},
		{"reap", "UPDATE @node SET lost", source{}},
		{"reap", "DELETE FROM @watch WHERE (type", source{}},
		{"reap", "FROM @river_job", source{}},
		{"obey", "SELECT name, value FROM @setting", source{}},
		{"obey", "paused OR generation <> observed", source{}},
		{"report", "INTO @stats", source{}},
		{"admit", "max_running > 0", source{}},
		{"admit", "SELECT count(*) FROM (SELECT 1", source{}},
		{"share", "asked - @now", source{}},
		{"watch", "SELECT DISTINCT watch_type", source{}},
		{"watch", "UPDATE @watch SET position", source{}},
		{"watch", "WHERE state = 'idle' AND stopped", source{}},
		{"watch", "min(watch_state)", source{}},
		{"watch", "WITH changed", source{}},
		{"watch", "UPDATE @watch SET error", source{fails: true}},
	} {
		t.Run(test.loop+"/"+test.statement, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				slots := 1
				if test.loop == "report" {
					slots = 3 // with fewer slots, the ends of runs would report, too
				}
				settings := jobs.Defaults()
				settings.Lease = time.Minute // the other loops of the node wait for the same connection
				var hang, hung atomic.Bool
				db, err := jobdb.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "jobs.db"), jobdb.Options{Clock: goClock(), Before: func(ctx context.Context, sql string) {
					if hang.Load() && strings.Contains(sql, test.statement) && hung.CompareAndSwap(false, true) {
						<-ctx.Done()
					}
				}})
				if err != nil {
					t.Fatal(err)
				}
				kind := reporting{run: func(ctx context.Context, s *jobs.Session) error {
					for n := int64(1); ; n++ {
						select {
						case <-time.After(time.Second):
							s.Report(jobs.Stats{Entities: n})
						case <-ctx.Done():
							return ctx.Err()
						}
					}
				}}
				s := jobs.NewScheduler(db, jobs.Kinds{"fake": served{}, "busy": kind}, settings)
				apply(t, s, jobs.Document{Namespace: "n", Name: "x", Kind: "fake", Source: "https://s.test", Follow: true})
				for _, name := range []string{"a", "b"} {
					apply(t, s, jobs.Document{Namespace: "n", Name: name, Kind: "busy", Source: name, Follow: true})
				}
				o := &rounds{Observer: jobs.NoObserver, failed: map[string][]time.Duration{}, ok: map[string]int{}}
				ctx, stop := context.WithCancel(t.Context())
				done := make(chan error)
				go func() {
					watcher := watch.NewManager(s, map[string]watch.Source{"fake": test.source}, slog.New(slog.DiscardHandler))
					done <- s.Work(ctx, jobs.WorkerConfig{Name: "one", Slots: slots, Observer: o, Watcher: watcher})
				}()
				time.Sleep(2 * settings.Lease)
				hang.Store(true)
				time.Sleep(2 * time.Minute)
				o.mu.Lock()
				failed, ok := o.failed[test.loop], o.ok[test.loop]
				o.mu.Unlock()
				if !hung.Load() || len(failed) == 0 || failed[len(failed)-1] > 10*time.Second || ok < 3 {
					t.Errorf("hung: %v; failed rounds took %v; %d rounds since then succeeded", hung.Load(), failed, ok)
				}
				stop()
				if err := <-done; err != nil {
					t.Error(err)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
