package metrics

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/feedctl/feedctl/jobs"
)

// fakeKind is a kind of job whose source says how it ends.
type fakeKind struct{}

func (fakeKind) Check(*jobs.Document) []jobs.Problem { return nil }

func (fakeKind) Identify(d *jobs.Document) jobs.Identity {
	return jobs.Identity{Work: d.Namespace + d.Source, SourceOrigin: "https://" + d.Namespace + ".test:443"}
}

func (fakeKind) Run(_ context.Context, s *jobs.Session) error {
	s.Report(jobs.Stats{Entities: 3, Pending: 2, Lag: -1})
	if strings.HasPrefix(s.Document.Source, "bad") {
		return errors.New("it is bad")
	}
	return nil
}

// ends is an observer that sends a value for each run that has ended.
type ends struct {
	*Jobs
	ended chan string
}

func (e ends) Ended(d *jobs.Document, how string) {
	e.Jobs.Ended(d, how)
	e.ended <- how
}

// TestJobs: the metrics show what jobs do, and the number of series does not grow with the number of jobs.
func TestJobs(t *testing.T) {
	t.Parallel()
	settings := jobs.Defaults()
	settings.StartupJitter = 0
	settings.Backoff.Min, settings.Backoff.Max = time.Hour, time.Hour // each job crashes once
	store, err := jobs.Open(t.Context(), "sqlite::memory:", jobs.Kinds{"fake": fakeKind{}}, settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	m := NewJobs(store, func() map[string]int { return map[string]int{"a.test:443": 2} })
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(m)
	scrape := func() string {
		w := httptest.NewRecorder()
		promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
		if w.Code != 200 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		return w.Body.String()
	}
	scrape() // without jobs
	e := ends{m, make(chan string, 200)}
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- store.Work(ctx, jobs.WorkerConfig{Name: "node-1", Slots: 100, Observer: e}) }()
	series := func(per int) int {
		t.Helper()
		var documents []jobs.Document
		for _, namespace := range []string{"a", "b"} {
			for n := range per {
				documents = append(documents,
					jobs.Document{Namespace: namespace, Name: fmt.Sprint("once", n), Kind: "fake", Source: fmt.Sprint("once", n)},
					jobs.Document{Namespace: namespace, Name: fmt.Sprint("bad", n), Kind: "fake", Source: fmt.Sprint("bad", n)})
			}
		}
		changes, err := store.Apply(t.Context(), documents, jobs.ApplyOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for n := range changes {
			if changes[n].Action == jobs.Created {
				<-e.ended
			}
		}
		text := scrape()
		return strings.Count(text, "\nfeedctl_") - strings.Count(text, "\nfeedctl_scheduler_") // the series of a scheduler loop appear when the loop begins
	}
	few := series(1)
	many := series(10)
	stop()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if few != many {
		t.Errorf("%d series for 4 jobs, %d for 40", few, many)
	}
	got := scrape()
	for _, not := range []string{"lease_remaining", "jobs_longest_lag", "watch_age"} {
		if strings.Contains(got, not) {
			t.Errorf("there is %s, although the value is not known", not)
		}
	}
	for _, want := range []string{
		`feedctl_jobs{kind="fake",namespace="a",state="completed"} 10`,
		`feedctl_jobs{kind="fake",namespace="b",state="crashing"} 10`,
		`feedctl_jobs_pending{kind="fake",namespace="b",state="crashing"} 20`,
		`feedctl_jobs_lag_seconds_count{namespace="a"} 0`,
		`feedctl_jobs_left_out 0`,
		`feedctl_job_runs_total{end="completed",kind="fake"} 20`,
		`feedctl_job_runs_total{end="crashed",kind="fake"} 20`,
		`feedctl_job_start_delay_seconds_count{namespace="a"} 20`,
		`feedctl_scheduler_tick_seconds_count{loop="heartbeat"} `,
		`feedctl_origins{state="up"} 2`,
		`feedctl_tenant_shares{namespace="a"} 100`,
		`feedctl_job_adoptions_total 0`,
		`feedctl_job_heal_seconds_count 0`,
		`feedctl_origin_state{origin="https://a.test:443"} 0`,
		`feedctl_origin_delay_seconds{origin="https://b.test:443"} 0`,
		`feedctl_origin_connections{origin="https://a.test:443"} 2`,
		`feedctl_origin_connections{origin="https://b.test:443"} 0`,
		`feedctl_origins_left_out 0`,
	} {
		if !strings.Contains(got, "\n"+want) {
			t.Errorf("there is no %s in\n%s", want, got)
		}
	}
	if strings.Contains(got, "once") || strings.Contains(got, "bad") {
		t.Errorf("names of jobs are labels:\n%s", got)
	}
}
