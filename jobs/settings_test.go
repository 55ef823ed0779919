package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/internal/jobdb"
	"github.com/feedctl/feedctl/jobs"
)

// TestSet changes settings, and reads them with another scheduler.
func TestSet(t *testing.T) {
	eachDatabase(t, fakeKinds, func(t *testing.T, db *jobdb.DB, s *jobs.Scheduler) {
		other := jobs.NewScheduler(db, fakeKinds, jobs.Defaults())
		want := jobs.Defaults()
		check := func() {
			t.Helper()
			got, err := other.Settings(t.Context())
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("settings: %v\n%s", err, diff)
			}
		}
		check()
		for _, change := range []map[string]string{
			{"max-churn": "7", "interval": "1m", "retention": "2d"},
			{"interval": "", "backoff-min": "2h", "backoff-max": "1d"},
		} {
			if _, err := s.Set(t.Context(), change); err != nil {
				t.Fatal(err)
			}
			switch {
			case change["interval"] != "":
				want.MaxChurn, want.Interval, want.Retention = 7, time.Minute, 48*time.Hour
			default:
				want.Interval = jobs.Defaults().Interval
				want.Backoff = jobs.Backoff{Min: 2 * time.Hour, Max: 24 * time.Hour}
			}
			check()
		}
		for text, change := range map[string]map[string]string{
			"history: invalid value \"many\": want a number\ninterval: invalid value \"5\": want a number and a unit, such as 90s, 4h30m or 7d\n" +
				"lease: invalid value \"1s\": want 9s to 1h\nmax-job: unknown setting; did you mean \"max-jobs\"?": {
				"max-job": "5", "history": "many", "interval": "5", "lease": "1s", "max-churn": "3",
			},
			"backoff-min: 2h is above backoff-max, 1h": {"backoff-max": "", "max-churn": "3"},
		} {
			var problems jobs.InvalidError
			if _, err := s.Set(t.Context(), change); !errors.As(err, &problems) || problems.Error() != text {
				t.Errorf("set %v: got\n%v\nwant\n%s", change, err, text)
			}
			check()
		}
		found := map[string]string{}
		for _, setting := range want.List() {
			if setting.Value != setting.Default {
				found[setting.Name] = setting.Value + " " + setting.Default + " " + setting.Bounds
			}
		}
		if diff := cmp.Diff(map[string]string{"max-churn": "7 100 1 to 10000", "backoff-min": "2h 30s 1s to 24h", "backoff-max": "24h 1h 1s to 168h", "retention": "48h 24h 1m to 8736h"}, found); diff != "" {
			t.Error(diff)
		}
	})
}

// TestSettingsIgnored: the database has settings that this program does not know or accept, such as
// those of another version. A node works nevertheless, and settings can be read and changed.
func TestSettingsIgnored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db, err := jobdb.Open(t.Context(), "sqlite::memory:", jobdb.Options{Clock: goClock()})
		if err != nil {
			t.Fatal(err)
		}
		kind := &blocking{running: map[string]bool{}}
		s := jobs.NewScheduler(db, jobs.Kinds{"fake": kind}, jobs.Defaults())
		for name, value := range map[string]string{"novelty": "5", "lease": "1s", "history": "many", "backoff-min": "2h", "max-churn": "7"} {
			exec(t, db, "INSERT INTO @setting (name, value) VALUES ($1, $2)", name, value)
		}
		apply(t, s, jobs.Document{Namespace: "n", Name: "x", Kind: "fake", Source: "x", Follow: true})
		want := jobs.Defaults()
		want.MaxChurn = 7
		if got, err := s.Settings(t.Context()); err != nil || !cmp.Equal(got, want) {
			t.Errorf("settings: %v\n%s", err, cmp.Diff(want, got))
		}
		want.MaxJobs = 3
		if got, err := s.Set(t.Context(), map[string]string{"max-jobs": "3"}); err != nil || !cmp.Equal(got, want) {
			t.Errorf("changed settings: %v\n%s", err, cmp.Diff(want, got))
		}
		var log strings.Builder
		ctx, stop := context.WithCancel(t.Context())
		var node sync.WaitGroup
		node.Go(func() {
			if err := s.Work(ctx, jobs.WorkerConfig{Name: "node", Logger: slog.New(slog.NewTextHandler(&log, nil))}); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(10 * time.Second)
		if running := kind.names(); !running["x"] {
			t.Error("the job does not run")
		}
		if nodes, err := s.Nodes(t.Context()); err != nil || len(nodes) != 1 {
			t.Errorf("nodes: %v, %v", nodes, err)
		}
		if _, err := s.Pause(t.Context(), "n/x"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if running := kind.names(); len(running) > 0 {
			t.Error("a paused job runs")
		}
		stop()
		node.Wait()
		if n := strings.Count(log.String(), "stored settings are ignored"); n != 1 {
			t.Errorf("ignored settings were logged %d times:\n%s", n, log.String())
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestSettingsInBounds: each default can be set.
func TestSettingsInBounds(t *testing.T) {
	t.Parallel()
	s, err := jobs.Open(t.Context(), "sqlite::memory:", nil, jobs.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, setting := range jobs.Defaults().List() {
		all[setting.Name] = setting.Default
	}
	if got, err := s.Set(t.Context(), all); err != nil || !cmp.Equal(got, jobs.Defaults()) {
		t.Errorf("settings: %v\n%s", err, cmp.Diff(got, jobs.Defaults()))
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// blocking is a kind whose runs last until they are ended.
type blocking struct {
	fakeKind
	mu      sync.Mutex
	running map[string]bool // by name
}

func (b *blocking) Run(ctx context.Context, s *jobs.Session) error {
	b.set(s.Document.Name, true)
	defer b.set(s.Document.Name, false)
	<-ctx.Done()
	return ctx.Err()
}

func (b *blocking) set(name string, running bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.running[name] = running; !running {
		delete(b.running, name)
	}
}

func (b *blocking) names() map[string]bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.running)
}

// TestSettingsAtRunTime changes settings with another scheduler while a node works: the number of
// the node's runs grows and shrinks, and events of its jobs are deleted.
func TestSettingsAtRunTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		kind := &blocking{running: map[string]bool{}}
		store := inBubble(t, jobs.Kinds{"fake": kind})
		other := jobs.Beside(store)
		set := func(changes map[string]string) {
			t.Helper()
			if _, err := other.Set(t.Context(), changes); err != nil {
				t.Fatal(err)
			}
			time.Sleep(7 * time.Second) // the node reads the settings, and then writes how many slots it has
			synctest.Wait()
		}
		set(map[string]string{"max-jobs": "3"})
		for n := range 6 {
			apply(t, store, jobs.Document{Namespace: "n", Name: fmt.Sprint("job-", n), Kind: "fake", Source: fmt.Sprint(n), Follow: n > 0})
		}
		ctx, stop := context.WithCancel(t.Context())
		var node sync.WaitGroup
		node.Go(func() {
			if err := store.Work(ctx, jobs.WorkerConfig{Name: "node"}); err != nil {
				t.Error(err)
			}
		})
		set(nil)
		for _, want := range []int{5, 1, 2} {
			set(map[string]string{"max-jobs": fmt.Sprint(want)})
			if running := kind.names(); len(running) != want || !running["job-0"] {
				t.Errorf("with max-jobs %d, %v run", want, running)
			}
			if nodes, err := other.Nodes(t.Context()); err != nil || len(nodes) != 1 || nodes[0].Slots != want {
				t.Errorf("nodes with max-jobs %d: %+v, %v", want, nodes, err)
			}
		}
		set(map[string]string{"history": "1"})
		if _, err := store.Pause(t.Context(), "n/job-0"); err != nil {
			t.Fatal(err)
		}
		if events, err := store.History(t.Context(), "n/job-0"); err != nil || len(events) != 1 {
			t.Errorf("events: %v, %v", events, err)
		}
		stop()
		node.Wait()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
}
