package console

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/jobs"
	"github.com/feedctl/feedctl/server"
)

// fakeKind is a kind of job that runs the given function.
type fakeKind struct {
	run func(context.Context, *jobs.Session) error
}

func (fakeKind) Check(*jobs.Document) []jobs.Problem { return nil }

func (fakeKind) Identify(d *jobs.Document) jobs.Identity {
	return jobs.Identity{Work: d.Source + " " + d.Target, Target: d.Target, SourceOrigin: strings.Join(d.Options["origin"], "")}
}

func (k fakeKind) Run(ctx context.Context, s *jobs.Session) error { return k.run(ctx, s) }

// newScheduler returns a scheduler with jobs in a database.
func newScheduler(t *testing.T, db string, kind fakeKind, documents ...jobs.Document) *jobs.Scheduler {
	t.Helper()
	s, err := jobs.Open(t.Context(), db, jobs.Kinds{"fake": kind}, jobs.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := s.Apply(t.Context(), documents, jobs.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	return s
}

// job returns the document of a job.
func job(namespace, name string) jobs.Document {
	return jobs.Document{Namespace: namespace, Name: name, Kind: "fake", Source: namespace + "/" + name, Target: "to " + namespace + "/" + name, Labels: map[string]string{"team": namespace}}
}

// Credentials of people; those of Ann are limited to the namespace shop.
const (
	asAll  = "Authorization: Bearer all"
	asAnn  = "Authorization: Bearer ann"
	asRead = "Authorization: Bearer read"
)

// jobsConsole returns a console of a scheduler.
func jobsConsole(t *testing.T, s Jobs, change func(*Config)) *Console {
	t.Helper()
	all, ann := Credential{Credential: server.Credential{Bearer: "all"}}, Credential{server.Credential{Bearer: "ann"}, []string{"shop"}}
	config := Config{
		Jobs: s, JobsName: "postgres://db.example.org/jobs",
		ReadAuth:  []Credential{{Credential: server.Credential{Bearer: "read"}}, all, ann},
		WriteAuth: []Credential{all, ann},
	}
	if change != nil {
		change(&config)
	}
	c, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// want gets a page, and checks its status.
func want(t *testing.T, c *Console, status int, path string, fields ...string) string {
	t.Helper()
	w := get(c, path, fields...)
	if w.Code != status {
		t.Fatalf("GET %s as %v: %d, want %d\n%s", path, fields, w.Code, status, w.Body)
	}
	return w.Body.String()
}

// linkOf returns the URL of the first link with the given text, or "".
func linkOf(html, text string) string {
	for _, m := range regexp.MustCompile(`<a href="([^"]*)"[^>]*>(?:<[^>]*>)*`+regexp.QuoteMeta(text)).FindAllStringSubmatch(html, 1) {
		return strings.ReplaceAll(m[1], "&amp;", "&")
	}
	return ""
}

// jobsIn returns the names of jobs that a page lists.
func jobsIn(html string) (names []string) {
	for _, m := range regexp.MustCompile(`<th scope="row"><a href="job\?name=[^"]*">([^<]*)</a>`).FindAllStringSubmatch(html, -1) {
		names = append(names, m[1])
	}
	return names
}

// A counted is a scheduler that counts its queries.
type counted struct {
	*jobs.Scheduler
	asked atomic.Int64
}

func (c *counted) List(ctx context.Context, f jobs.Filter) (jobs.Page, error) {
	c.asked.Add(1)
	return c.Scheduler.List(ctx, f)
}

func (c *counted) Totals(ctx context.Context, f jobs.Filter) (map[jobs.State]int, error) {
	c.asked.Add(1)
	return c.Scheduler.Totals(ctx, f)
}

func (c *counted) Describe(ctx context.Context, id string) (*jobs.Description, error) {
	c.asked.Add(1)
	return c.Scheduler.Describe(ctx, id)
}

func (c *counted) Logs(ctx context.Context, id string, after int64) ([]jobs.LogLine, error) {
	c.asked.Add(1)
	return c.Scheduler.Logs(ctx, id, after)
}

func (c *counted) Nodes(ctx context.Context) ([]jobs.NodeStatus, error) {
	c.asked.Add(1)
	return c.Scheduler.Nodes(ctx)
}

func (c *counted) Origins(ctx context.Context) ([]jobs.OriginStatus, error) {
	c.asked.Add(1)
	return c.Scheduler.Origins(ctx)
}

func (c *counted) Tenants(ctx context.Context) ([]jobs.TenantStatus, error) {
	c.asked.Add(1)
	return c.Scheduler.Tenants(ctx)
}

// TestManyJobs shows 10,000 jobs in 100 namespaces, on 10,000 servers: pages are small and make few queries, a list
// can be read to its end, and people see only their namespaces.
func TestManyJobs(t *testing.T) {
	t.Parallel()
	const many, namespaces = 10_000, 100
	documents := make([]jobs.Document, many)
	for n := range documents {
		documents[n] = job(fmt.Sprintf("tenant-%02d", n%namespaces), fmt.Sprintf("job-%05d", n))
		documents[n].Options = map[string]jobs.Values{"origin": {fmt.Sprintf("https://server-%05d.example.org:443", n)}}
		if n%namespaces == 7 {
			documents[n].Namespace = "shop"
		}
	}
	s := &counted{Scheduler: newScheduler(t, pgtest.Start(t).URL("jobs"), fakeKind{}, documents...)}
	node, err := s.Join(t.Context(), jobs.Node{Name: "node", Slots: 500})
	if err != nil {
		t.Fatal(err)
	}
	runs, err := s.Admit(t.Context(), node, 300)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range runs[:200] {
		reason := strings.Repeat(`<"&'>`, 200)
		if err := s.Finish(t.Context(), r, jobs.Outcome{End: jobs.Crashed, Reason: reason}); err != nil {
			t.Fatal(err)
		}
	}
	c := jobsConsole(t, s, nil)

	for path, most := range map[string]int64{
		"/": 2, "/jobs": 2, "/jobs?state=crashing": 2, "/jobs?name=0999": 2, "/jobs?namespace=shop&kind=fake&label=team%3Dshop": 2,
		"/job?name=" + url.QueryEscape(runs[0].Job.Document.ID()): 2, "/nodes": 3,
	} {
		s.asked.Store(0)
		html := want(t, c, 200, path, asAll)
		if asked := s.asked.Load(); len(html) > 100<<10 || asked > most {
			t.Errorf("%s has %d bytes and makes %d queries, want at most %d", path, len(html), asked, most)
		}
	}
	crashing := want(t, c, 200, "/jobs?state=crashing", asAll)
	if !strings.Contains(crashing, `crashing</span> <span class="count">200</span>`) || len(jobsIn(crashing)) != jobsAPage {
		t.Errorf("the list of crashing jobs has %d:\n%s", len(jobsIn(crashing)), crashing)
	}

	seen := map[string]bool{}
	for path, pages := "jobs?namespace=shop", 0; path != ""; pages++ {
		html := want(t, c, 200, "/"+path, asAnn)
		for _, name := range jobsIn(html) {
			if seen[name] || !strings.HasPrefix(name, "shop/") {
				t.Errorf("%s is listed twice, or should not be listed", name)
			}
			seen[name] = true
		}
		if path = linkOf(html, "Next page"); pages > many/jobsAPage {
			t.Fatal("the list has no end")
		}
	}
	if len(seen) != many/namespaces {
		t.Errorf("%d jobs of the namespace are listed, want %d", len(seen), many/namespaces)
	}
	if html := want(t, c, 200, "/jobs", asAnn); strings.Contains(html, "tenant-") || !strings.Contains(html, `all <span class="count">100</span>`) {
		t.Errorf("ann sees other namespaces:\n%s", html)
	}
}

// TestHostileJobs shows a job whose texts contain markup: the markup is escaped, and the texts are shortened.
func TestHostileJobs(t *testing.T) {
	t.Parallel()
	const markup = `<script>alert(1)</script><img src=x onerror=alert(1)>`
	const evil = markup + "\x1b[31m\u202e"
	ran := make(chan struct{}, 1)
	kind := fakeKind{run: func(_ context.Context, s *jobs.Session) error {
		for range 300 {
			s.Logger.Warn("long", "text", strings.Repeat(`"`, 4000), evil, evil)
		}
		s.Logger.Warn(evil, evil, evil)
		s.Report(jobs.Stats{Entities: 1234, Rejected: 3, Pending: 5, Lag: -1, Position: evil, SourcePosition: evil})
		select {
		case ran <- struct{}{}:
		default:
		}
		return errors.Join(jobs.ErrRejected, errors.New(evil+strings.Repeat(`"`, 8000)))
	}}
	d := job("shop", "evil")
	d.Source, d.Target = evil, evil
	d.Options = map[string]jobs.Values{"note": {evil, strings.Repeat(`'`, 30_000)}}
	s := newScheduler(t, "sqlite::memory:", kind, d)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- s.Work(ctx, jobs.WorkerConfig{Name: "node", Slots: 1, Logger: slog.New(slog.DiscardHandler)})
	}()
	<-ran
	for failed := false; !failed; { // the run has ended, but its end may not have been recorded yet
		totals, err := s.Totals(t.Context(), jobs.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		failed = totals[jobs.Failed] == 1
	}
	stop()
	<-ended
	c := jobsConsole(t, s, nil)
	for _, path := range []string{
		"/jobs", "/job?name=shop/evil", "/restart?job=shop/evil", "/nodes",
		"/jobs?" + url.Values{"name": {markup}, "kind": {markup}, "label": {"a=" + markup}, "origin": {markup}}.Encode(),
		"/jobs?name=" + url.QueryEscape(evil),
		"/jobs?namespace=" + url.QueryEscape(evil), "/job?name=" + url.QueryEscape(evil+"/"+evil),
	} {
		w := get(c, path, asAll)
		html := w.Body.String()
		for _, unsafe := range []string{"<script>alert", "<img", "\x1b", "\u202e"} {
			if strings.Contains(html, unsafe) {
				t.Errorf("%s has %q", path, unsafe)
			}
		}
		if len(html) > 100<<10 {
			t.Errorf("%s has %d bytes", path, len(html))
		}
	}
	html := want(t, c, 200, "/job?name=shop/evil", asAll)
	for _, text := range []string{"failed</span>", "&lt;script&gt;alert(1)&lt;/script&gt;", "1,234", "<dd>3</dd>", "Last error", "warn"} {
		if !strings.Contains(html, text) {
			t.Errorf("the page of the job does not have %q:\n%s", text, html)
		}
	}
}

// TestJobsProblems requests pages that do not exist, or that the person may not see.
func TestJobsProblems(t *testing.T) {
	t.Parallel()
	later := job("shop", "later")
	later.Schedule = "0 0 1 1 *"
	c := jobsConsole(t, newScheduler(t, "sqlite::memory:", fakeKind{}, job("shop", "a"), job("other", "b"), later), nil)
	for _, test := range []struct {
		path   string
		status int
		fields []string
	}{
		{"/jobs", 401, nil},
		{"/jobs?state=nonsense", 400, []string{asAll}},
		{"/jobs?label=nonsense", 400, []string{asAll}},
		{"/jobs?name=%ff", 400, []string{asAll}},
		{"/jobs?name=" + strings.Repeat("a", maxFilter+1), 400, []string{asAll}},
		{"/jobs?after=nonsense", 400, []string{asAll}},
		{"/jobs?namespace=other", 403, []string{asAnn}},
		{"/job?name=other/b", 403, []string{asAnn}},
		{"/job?name=other/missing", 403, []string{asAnn}},
		{"/job?name=shop/missing", 404, []string{asAnn}},
		{"/job?name=shop", 400, []string{asAll}},
		{"/nodes", 403, []string{asAnn}},
		{"/nodes", 200, []string{asRead}},
		{"/run?id=1", 404, []string{asAll}},
		{"/pause?job=shop/a", 403, []string{asRead}},
		{"/pause?job=other/b", 403, []string{asAnn}},
		{"/pause?job=shop/a", 200, []string{asAnn}},
	} {
		want(t, c, test.status, test.path, test.fields...)
	}
	if html := want(t, c, 200, "/jobs?name=later", asRead); !strings.Contains(html, "next try <time") {
		t.Errorf("the next run of a job with a schedule is not shown:\n%s", html)
	}
	if html := want(t, c, 200, "/job?name=shop/a", asRead); strings.Contains(html, "pause") {
		t.Errorf("a reader is offered an action:\n%s", html)
	}
}

// TestRates computes rates from reports of a job, some of which are shown twice.
func TestRates(t *testing.T) {
	t.Parallel()
	r, at := newRates(), time.Unix(1000, 0)
	for _, step := range []struct {
		entities int64
		after    time.Duration
		runs     bool
		want     string
	}{
		{100, 0, true, ""}, {100, 0, true, ""}, {150, 10 * time.Second, true, "5.0"}, {150, 0, true, "5.0"},
		{150, 0, false, ""}, {50_150, 10 * time.Second, true, "5,000"}, {50_150, 10 * time.Second, true, "0"}, {90_000, time.Hour, true, ""}, {1, time.Second, true, ""},
	} {
		at = at.Add(step.after)
		if got := r.of("job", step.entities, at, step.runs); got != step.want {
			t.Errorf("%d entities after %v: %q a second, want %q", step.entities, step.after, got, step.want)
		}
	}
}
