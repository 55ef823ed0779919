package metrics

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/feedctl/feedctl/jobs"
)

// watchedKind is a kind whose jobs wait for changes on the server of their source.
type watchedKind struct{ fakeKind }

func (watchedKind) Identify(d *jobs.Document) jobs.Identity {
	return jobs.Identity{Work: d.ID(), SourceOrigin: d.Source, Watch: jobs.Watch{Type: "fake", Server: d.Source, Name: d.Name}}
}

// beats is an observer that sends a value for each heartbeat of a node.
type beats struct {
	*Jobs
	beat chan error
}

func (b beats) Looped(loop string, took time.Duration, err error) {
	b.Jobs.Looped(loop, took, err)
	if loop == "heartbeat" {
		select {
		case b.beat <- err:
		default:
		}
	}
}

// scraped is a registry whose metrics a test reads.
type scraped struct {
	*testing.T
	*prometheus.Registry
}

// scrape returns the values of all series.
func (r scraped) scrape() map[string]float64 {
	r.Helper()
	w := httptest.NewRecorder()
	promhttp.HandlerFor(r, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequestWithContext(r.Context(), "GET", "/metrics", nil))
	if w.Code != 200 {
		r.Fatalf("%d %s", w.Code, w.Body)
	}
	all := map[string]float64{}
	for _, m := range regexp.MustCompile(`(?m)^(feedctl_\S+) (\S+)$`).FindAllStringSubmatch(w.Body.String(), -1) {
		v, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			r.Fatal(err)
		}
		all[m[1]] = v
	}
	return all
}

// opened returns a scheduler, its metrics, and the registry in which they are registered.
func opened(t *testing.T) (*jobs.Scheduler, *Jobs, scraped) {
	t.Helper()
	store, err := jobs.Open(t.Context(), "sqlite::memory:", jobs.Kinds{"fake": watchedKind{}}, jobs.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	m := NewJobs(store, func() map[string]int { return nil })
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(m)
	return store, m, scraped{t, registry}
}

// TestValues checks the values for a job that has caught up, one that failed an hour behind its
// source, and one whose server is not watched.
func TestValues(t *testing.T) {
	t.Parallel()
	store, m, registry := opened(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	const watched, other = "https://a.test:443", "https://b.test:443"
	node, err := store.Join(t.Context(), jobs.Node{Name: "by-hand", Slots: 1})
	must(err)
	for _, job := range []struct {
		name, source string
		o            jobs.Outcome
	}{
		{"current", watched, jobs.Outcome{End: jobs.CaughtUp, Seen: 1, Stats: &jobs.Stats{}}},
		{"behind", watched, jobs.Outcome{End: jobs.Crashed, Stats: &jobs.Stats{Pending: 7, Lag: time.Hour}}},
		{"new", other, jobs.Outcome{End: jobs.Crashed}},
	} {
		d := jobs.Document{Namespace: "n", Name: job.name, Kind: "fake", Source: job.source, Follow: true, Metrics: true, Backoff: jobs.Backoff{Min: time.Hour, Max: time.Hour}}
		_, err := store.Apply(t.Context(), []jobs.Document{d}, jobs.ApplyOptions{})
		must(err)
		runs, err := store.Admit(t.Context(), node, 1)
		must(err)
		must(store.Finish(t.Context(), runs[0], job.o))
	}
	watches, err := store.Watches(t.Context(), node, []string{"fake"}, func(w jobs.Watched) bool { return w.Server == other })
	must(err)
	for w := range watches {
		must(store.WatchesChecked(t.Context(), node, []jobs.WatchCheck{{Watched: w, Age: 2 * time.Hour}}))
	}
	m.Healed(7 * time.Second)
	m.Woken(watched, "event", 3)
	m.Woken(watched, "sweep", 2)
	m.Looped("watch", time.Millisecond, errors.New("database is away"))
	ctx, stop := context.WithCancel(t.Context())
	b, done := beats{m, make(chan error, 1)}, make(chan error)
	go func() { done <- store.Work(ctx, jobs.WorkerConfig{Name: "works", Slots: 1, Observer: b}) }()
	must(<-b.beat)
	got := registry.scrape()
	stop()
	must(<-done)
	for series, want := range map[string][2]float64{ // from, to
		`feedctl_watch_age_seconds{origin="` + watched + `"}`:                      {7200, 7300},
		`feedctl_watch_age_seconds{origin="` + other + `"}`:                        {math.Inf(1), math.Inf(1)},
		`feedctl_watch_wakeups_total{how="event",origin="` + watched + `"}`:        {3, 3},
		`feedctl_watch_wakeups_total{how="sweep",origin="` + watched + `"}`:        {2, 2},
		`feedctl_node_lease_remaining_seconds{node="works"}`:                       {1, 12},
		`feedctl_job_lag_seconds{job="current",namespace="n"}`:                     {0, 0},
		`feedctl_job_lag_seconds{job="behind",namespace="n"}`:                      {3600, 3700},
		`feedctl_job_pending{job="current",namespace="n"}`:                         {0, 0},
		`feedctl_job_pending{job="behind",namespace="n"}`:                          {7, 7},
		`feedctl_job_heal_seconds_sum`:                                             {7, 7},
		`feedctl_job_heal_seconds_bucket{le="5"}`:                                  {0, 0},
		`feedctl_job_heal_seconds_bucket{le="10"}`:                                 {1, 1},
		`feedctl_scheduler_db_errors_total{loop="watch"}`:                          {1, 1},
		`feedctl_jobs_lag_seconds_bucket{namespace="n",le="300"}`:                  {2, 2},
		`feedctl_jobs_longest_lag_seconds{kind="fake",namespace="n",state="idle"}`: {0, 0},
		`feedctl_jobs_pending{kind="fake",namespace="n",state="crashing"}`:         {7, 7},
	} {
		if v, ok := got[series]; !ok || v < want[0] || v > want[1] {
			t.Errorf("%s is %v (%v), want %v to %v", series, v, ok, want[0], want[1])
		}
	}
	if v, ok := got[`feedctl_job_pending{job="new",namespace="n"}`]; ok {
		t.Errorf("the job that has reported nothing has %v pending", v)
	}
}

// TestNamespaces: if there are more namespaces than the metrics have room for, deleting one makes room for another.
func TestNamespaces(t *testing.T) {
	t.Parallel()
	store, m, registry := opened(t)
	var documents []jobs.Document
	for n := range maxNamespaces + 2 {
		d := jobs.Document{Namespace: fmt.Sprintf("n%03d", n), Name: "x", Kind: "fake", Source: "https://a.test:443", Follow: true, Paused: true}
		documents = append(documents, d)
	}
	if _, err := store.Apply(t.Context(), documents, jobs.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	has := func(leftOut float64, last string) {
		t.Helper()
		for n := range documents {
			m.Started(&documents[n], time.Second)
		}
		got := registry.scrape()
		count := map[string]int{}
		for series := range got {
			if name, labels, _ := strings.Cut(series, "{"); strings.Contains(labels, `namespace="`) {
				count[name]++
			}
		}
		for _, name := range []string{"feedctl_jobs", "feedctl_tenant_shares", "feedctl_jobs_lag_seconds_count", "feedctl_job_start_delay_seconds_count"} {
			if count[name] != maxNamespaces {
				t.Errorf("%d series of %s, want %d", count[name], name, maxNamespaces)
			}
		}
		if v := got["feedctl_namespaces_left_out"]; v != leftOut {
			t.Errorf("%v namespaces are left out, want %v", v, leftOut)
		}
		if v := got[`feedctl_jobs{kind="fake",namespace="`+last+`",state="paused"}`]; v != 1 {
			t.Errorf("namespace %s has no metrics", last)
		}
	}
	has(2, "n199")
	if err := store.Delete(t.Context(), documents[0].ID()); err != nil {
		t.Fatal(err)
	}
	documents = documents[1:]
	registry.scrape() // forgets the deleted namespace
	has(1, "n200")
}
