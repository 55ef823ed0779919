package console

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/jobs"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

// fakeActions records the actions that are carried out, and calls run for each.
type fakeActions struct {
	done []string
	run  func(ctx context.Context, progress func(string)) (Result, error)
}

func (f *fakeActions) action(name, target string) Action {
	return Action{Name: name, About: "About it.", Command: "feedctl " + name + " " + target, Run: func(ctx context.Context, progress func(string)) (Result, error) {
		f.done = append(f.done, name+" "+target)
		if f.run != nil {
			return f.run(ctx, progress)
		}
		return Result{Summary: name + " is done"}, nil
	}}
}

func (f *fakeActions) Snapshot(feed, key string) (Action, error) {
	return f.action("snapshot", feed+key), nil
}

func (f *fakeActions) Verify(feed string) (Action, error) { return f.action("verify", feed), nil }

func (f *fakeActions) Prune(feed string, rules PruneRules) (Action, error) {
	if rules == (PruneRules{}) {
		return Action{}, errors.New("there is no rule")
	}
	return f.action("prune", fmt.Sprint(feed, " ", rules.KeepAge, " ", rules.KeepPages, " ", rules.BeforeSnapshot)), nil
}

func (f *fakeActions) Offered(d *jobs.Document) []Action {
	return []Action{f.action("reconcile", d.ID())}
}

// actConsole returns a console of a store with the feed "zones" and of the jobs shop/a and other/b.
func actConsole(t *testing.T, actions *fakeActions, log *strings.Builder) (*Console, *jobs.Scheduler) {
	t.Helper()
	store := memory.New()
	publishOne(t, store, "zones")
	s := newScheduler(t, "sqlite::memory:", fakeKind{}, job("shop", "a"), job("other", "b"))
	c := newConsole(t, store, func(c *Config) {
		c.Jobs, c.JobsName, c.Actions, c.JobActions = s, "sqlite::memory:", actions, actions
		ann := Credential{server.Credential{Username: "ann", Password: "p"}, []string{"shop"}}
		c.ReadAuth = []Credential{{Credential: server.Credential{Bearer: "read"}}, ann}
		c.WriteAuth = []Credential{{Credential: server.Credential{Bearer: "all"}}, ann}
		c.Logger = slog.New(slog.NewTextHandler(log, nil))
	})
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c, s
}

func publishOne(t *testing.T, store storage.Store, name string) {
	t.Helper()
	f, err := producer.Open(t.Context(), store, name, producer.Config{})
	if err == nil {
		_, err = f.Publish(t.Context(), &feed.Entity{Operation: feed.Put, ContentLocation: "k", ContentType: "text/plain", Body: []byte("v")})
	}
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// everyAction returns the forms of all actions by their paths.
func everyAction() map[string]url.Values {
	return map[string]url.Values{
		"/pause": {"job": {"shop/a"}}, "/resume": {"job": {"shop/a"}}, "/restart": {"job": {"shop/a"}},
		"/act": {"job": {"shop/a"}, "action": {"reconcile"}}, "/verify": {"feed": {"zones"}}, "/make-snapshot": {"feed": {"zones"}, "key": {""}},
		"/prune": {"feed": {"zones"}, "keep-age": {"30d"}}, "/confirm": {"run": {"1"}},
	}
}

// TestWhoActs requests every action with the credentials of each kind of person, and by other methods than its
// form does.
func TestWhoActs(t *testing.T) {
	t.Parallel()
	const asAnn = "Authorization: Basic YW5uOnA=" // ann:p
	for path, form := range everyAction() {
		var log strings.Builder
		actions := &fakeActions{}
		c, s := actConsole(t, actions, &log)
		if path == "/confirm" { // a run must have prepared an action to confirm
			confirm := actions.action("confirm", "zones")
			actions.run = func(context.Context, func(string)) (Result, error) {
				return Result{Summary: "is done", Confirm: &confirm}, nil
			}
			if _, err := c.startRun(httpRequest(t), actions.action("prepare", "zones"), &run{Target: "zones"}); err != nil {
				t.Fatal(err)
			}
			c.runs.active.Wait()
		}
		before, logged := jobState(t, s, "shop/a"), log.String()
		actions.done = nil
		for who, test := range map[string]struct {
			method string
			fields []string
			status []int
		}{
			"no credentials":          {http.MethodPost, nil, []int{401}},
			"wrong":                   {http.MethodPost, []string{"Authorization: Bearer x"}, []int{401}},
			"reader":                  {http.MethodPost, []string{asRead}, []int{403}},
			"cross-site":              {http.MethodPost, []string{asAll, "Sec-Fetch-Site: cross-site"}, []int{403}},
			"another origin":          {http.MethodPost, []string{asAll, "Origin: https://evil.example"}, []int{403}},
			"reader with GET":         {http.MethodGet, []string{asRead}, []int{403, 405}},
			"no credentials with GET": {http.MethodGet, nil, []int{401, 405}},
			"GET":                     {http.MethodGet, []string{asAll}, []int{200, 405}},
			"HEAD":                    {http.MethodHead, []string{asAll}, []int{200, 405}},
			"PUT":                     {http.MethodPut, []string{asAll}, []int{405}},
		} {
			w := submit(c, test.method, path, form, test.fields...)
			found := false
			for _, status := range test.status {
				found = found || w.Code == status
			}
			if !found {
				t.Errorf("%s by %s: %d, want one of %v\n%s", path, who, w.Code, test.status, w.Body)
			}
		}
		c.runs.active.Wait()
		if after := jobState(t, s, "shop/a"); after != before || len(actions.done) > 0 || log.String() != logged {
			t.Errorf("%s was carried out: %s, %v, %s", path, after, actions.done, log.String())
		}
		w := submit(c, http.MethodPost, path, form, asAll, "Sec-Fetch-Site: same-origin")
		c.runs.active.Wait()
		if w.Code != http.StatusSeeOther || w.Header().Get("Location") == "" {
			t.Errorf("%s by a writer: %d to %q\n%s", path, w.Code, w.Header().Get("Location"), w.Body)
			continue
		}
		see := want(t, c, 200, "/"+w.Header().Get("Location"), asAll)
		if !strings.Contains(see, "is done") && !strings.Contains(see, "shop/a is ") && !strings.Contains(see, "was not paused") {
			t.Errorf("the result of %s is not shown:\n%s", path, see)
		}
		target := form.Get("job") + form.Get("feed")
		if target == "" {
			target = "zones"
		}
		for _, text := range []string{"console action", "target=" + target, `user="bearer token"`} {
			if !strings.Contains(log.String(), text) {
				t.Errorf("the log of %s does not have %s: %s", path, text, log.String())
			}
		}
		if strings.HasPrefix(target, "shop/") {
			w := submit(c, http.MethodPost, path, form, asAnn)
			c.runs.active.Wait()
			if w.Code != http.StatusSeeOther || !strings.Contains(log.String(), "user=ann") {
				t.Errorf("%s by ann: %d\n%s", path, w.Code, log.String())
			}
			form.Set("job", "other/b")
		}
		if w := submit(c, http.MethodPost, path, form, asAnn); w.Code != http.StatusForbidden && path != "/confirm" { // see TestConfirm
			t.Errorf("%s by ann, in another namespace: %d\n%s", path, w.Code, w.Body)
		}
	}
}

// TestActionRefused: the log says which action was refused, and to whom.
func TestActionRefused(t *testing.T) {
	t.Parallel()
	log := new(strings.Builder)
	c, _ := actConsole(t, &fakeActions{}, log)
	if err := c.runs.close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for path, target := range map[string]string{"/pause": "shop/a", "/verify": "zones"} {
		log.Reset()
		w := submit(c, http.MethodPost, path, everyAction()[path], asAll)
		if want := fmt.Sprintf("console action refused\" action=%s target=%s user=\"bearer token\"", path[1:], target); w.Code != http.StatusConflict || !strings.Contains(log.String(), want) {
			t.Errorf("%s: status %d, log %s, want %s", path, w.Code, log, want)
		}
	}
}

// httpRequest returns a request without credentials.
func httpRequest(t *testing.T) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// submit sends a request with a form: in its body, or for GET and HEAD in the query.
func submit(c *Console, method, path string, form url.Values, fields ...string) *httptest.ResponseRecorder {
	r, err := http.NewRequestWithContext(context.Background(), method, path, strings.NewReader(form.Encode()))
	if err != nil {
		panic(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if method != http.MethodPost {
		r.URL.RawQuery, r.Body = form.Encode(), http.NoBody
	}
	return do(c, r, fields...)
}

// jobState describes the state of a job.
func jobState(t *testing.T, s *jobs.Scheduler, id string) string {
	t.Helper()
	j, err := s.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintln(j.Document.Paused, j.State, j.Wanted)
}

// TestJobVerbs pauses, resumes and restarts a job. The pages show the equivalent command lines and the results.
func TestJobVerbs(t *testing.T) {
	t.Parallel()
	c, s := actConsole(t, &fakeActions{}, new(strings.Builder))
	for _, step := range []struct{ verb, text, state string }{
		{"pause", "shop/a is paused", "true paused 1"}, {"pause", "shop/a was paused before", "true paused 1"},
		{"resume", "shop/a is resumed", "false pending 2"}, {"resume", "shop/a was not paused", "false pending 2"}, {"restart", "shop/a is due now", "false pending 3"},
	} {
		confirm := want(t, c, 200, "/"+step.verb+"?job=shop/a", asAll)
		for _, text := range []string{`method="post"`, `action="` + step.verb + `"`, "feedctl jobs " + step.verb + " shop/a --db sqlite::memory:"} {
			if !strings.Contains(confirm, text) {
				t.Errorf("the confirmation page of %s does not have %q:\n%s", step.verb, text, confirm)
			}
		}
		w := submit(c, http.MethodPost, "/"+step.verb, url.Values{"job": {"shop/a"}}, asAll)
		if see := want(t, c, 200, "/"+w.Header().Get("Location"), asAll); !strings.Contains(see, step.text) {
			t.Errorf("%s shows no %q:\n%s", step.verb, step.text, see)
		}
		if got := strings.TrimSpace(jobState(t, s, "shop/a")); got != step.state {
			t.Errorf("%s: the job is %s, want %s", step.verb, got, step.state)
		}
	}
	wait := make(chan struct{})
	if _, err := c.startRun(httpRequest(t), waits(wait), &run{Target: "shop/a", Job: true}); err != nil {
		t.Fatal(err)
	}
	if w := submit(c, http.MethodPost, "/pause", url.Values{"job": {"shop/a"}}, asAll); w.Code != http.StatusSeeOther {
		t.Errorf("a job cannot be paused while its data is compared: %d\n%s", w.Code, w.Body)
	}
	close(wait)
	for form, status := range map[string]int{"job=shop/none": 404, "job=": 400, "job=shop/a&job=shop/b": 400, "job=shop/%00": 400, "job=shop/%ff": 400} {
		values, err := url.ParseQuery(form)
		if err != nil {
			t.Fatal(err)
		}
		if w := submit(c, http.MethodPost, "/pause", values, asAll); w.Code != status {
			t.Errorf("pause %s: %d, want %d", form, w.Code, status)
		}
	}
}

// TestFeedForms sends invalid forms for actions on feeds.
func TestFeedForms(t *testing.T) {
	t.Parallel()
	actions := &fakeActions{}
	c, _ := actConsole(t, actions, new(strings.Builder))
	for _, test := range []struct {
		path string
		form url.Values
		want int
	}{
		{"/prune", url.Values{"feed": {"zones"}}, 400},
		{"/prune", url.Values{"feed": {"zones"}, "keep-age": {"soon"}}, 400},
		{"/prune", url.Values{"feed": {"zones"}, "keep-pages": {"many"}}, 400},
		{"/prune", url.Values{"feed": {"../zones"}, "keep-pages": {"1"}}, 400},
		{"/verify", url.Values{"feed": {""}}, 400},
		{"/verify", url.Values{"feed": {"zones", "others"}}, 400},
		{"/confirm", url.Values{"run": {"99"}}, 409},
		{"/confirm", url.Values{}, 409},
		{"/act", url.Values{"job": {"shop/a"}, "action": {"nonsense"}}, 404},
		{"/verify", url.Values{"feed": {strings.Repeat("a", maxForm)}}, 400},
	} {
		if w := submit(c, http.MethodPost, test.path, test.form, asAll); w.Code != test.want {
			t.Errorf("%s %.100v: %d, want %d\n%s", test.path, test.form, w.Code, test.want, w.Body)
		}
	}
	c.runs.active.Wait()
	if len(actions.done) > 0 {
		t.Errorf("carried out: %v", actions.done)
	}
	want(t, c, 404, "/verify?feed=none", asAll)
	html := want(t, c, 200, "/feed?name=zones", asAll)
	for _, link := range []string{"verify?feed=zones", "make-snapshot?feed=zones", "prune?feed=zones"} {
		if !strings.Contains(html, link) {
			t.Errorf("the page of the feed does not offer %s", link)
		}
	}
	if html := want(t, c, 200, "/feed?name=zones", asRead); strings.Contains(html, "verify?feed=") {
		t.Error("a reader is offered an action")
	}
	submit(c, http.MethodPost, "/prune", url.Values{"feed": {"zones"}, "keep-age": {"30d"}, "keep-pages": {"7"}, "before-snapshot": {"zones/x"}}, asAll)
	c.runs.active.Wait()
	if len(actions.done) != 1 || actions.done[0] != fmt.Sprint("prune zones ", 30*24*time.Hour, " 7 zones/x") {
		t.Errorf("carried out: %v", actions.done)
	}
}
