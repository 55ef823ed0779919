package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/jobs"
)

// waits returns an action that waits until the console or the channel is closed.
func waits(wait <-chan struct{}) Action {
	return Action{Name: "wait", Run: func(ctx context.Context, progress func(string)) (Result, error) {
		progress("half of it")
		select {
		case <-wait:
			return Result{Summary: "waited"}, nil
		case <-ctx.Done():
			return Result{}, fmt.Errorf("wait: %w", context.Cause(ctx))
		}
	}}
}

// TestRuns begins more actions than may be in progress, some with the same target, and closes the console.
func TestRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, wait := newRuns(time.Now), make(chan struct{})
		ended := make(chan run, 10)
		start := func(target string, job bool) error {
			_, err := r.start(waits(wait), &run{Target: target, Job: job}, func(x run) { ended <- x })
			return err
		}
		for n, test := range []struct {
			target string
			job    bool
			want   error
		}{{"a", false, nil}, {"a", false, errBusy}, {"a", true, nil}, {"b", false, nil}, {"c", false, nil}, {"d", false, errTooMany}} {
			if err := start(test.target, test.job); !errors.Is(err, test.want) {
				t.Errorf("%d: %v, want %v", n, err, test.want)
			}
		}
		synctest.Wait()
		if x, ok := r.get(t.Context(), 1); !ok || x.State() != "running" || x.Progress != "half of it" {
			t.Errorf("in progress: %+v", x)
		}
		wait <- struct{}{}
		first := <-ended
		if first.State() != "done" || first.Result.Summary != "waited" || first.Progress != "" {
			t.Errorf("at its end: %+v", first)
		}
		if err := start(first.Target, first.Job); err != nil {
			t.Errorf("again after its end: %v", err)
		}
		if err := r.close(t.Context()); err != nil {
			t.Error(err)
		}
		for range mostRuns {
			if x := <-ended; x.State() != "cancelled" || x.Error == "" {
				t.Errorf("after the console was closed: %+v", x)
			}
		}
		if err := start("e", false); !errors.Is(err, errClosing) {
			t.Errorf("after the console was closed: %v", err)
		}
	})
}

// TestHangs closes a console while an action does not end.
func TestHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, wait := newRuns(time.Now), make(chan struct{})
		hangs := Action{Name: "hang", Run: func(context.Context, func(string)) (Result, error) { <-wait; return Result{}, nil }}
		if _, err := r.start(hangs, &run{Target: "a"}, func(run) {}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("close: %v", err)
		}
		close(wait)
	})
}

// TestManyRuns: the last runs are remembered, and people see those of their namespaces.
func TestManyRuns(t *testing.T) {
	t.Parallel()
	r := newRuns(time.Now)
	defer func() { _ = r.close(t.Context()) }()
	long := strings.Repeat("x", keepText+10)
	report := Action{Name: "find", Run: func(context.Context, func(string)) (Result, error) {
		findings := make([]string, keepFinds+7)
		for n := range findings {
			findings[n] = long
		}
		return Result{Findings: findings, Omitted: 3}, nil
	}}
	wait := make(chan struct{})
	if _, err := r.start(waits(wait), &run{Target: "slow"}, func(run) {}); err != nil {
		t.Fatal(err)
	}
	targets := []run{{Target: "shop/a", Job: true}, {Target: "other/b", Job: true}, {Target: "shop/a"}}
	for n := range 10 * keepRuns {
		x := targets[n%len(targets)]
		if _, err := r.do(t.Context(), report, &x); err != nil {
			t.Fatal(err)
		}
	}
	close(wait)
	r.active.Wait()
	all := r.list(t.Context())
	if len(all) != keepRuns+mostRuns || all[0].ID != 10*keepRuns+1 || all[len(all)-1].ID != 1 {
		t.Errorf("%d runs are remembered, from %d to %d", len(all), all[0].ID, all[len(all)-1].ID)
	}
	if x := all[0]; x.State() != "found problems" || len(x.Result.Findings) != keepFinds || x.Result.Omitted != 10 || len(x.Result.Findings[0]) > keepText+len("…") {
		t.Errorf("%d findings, %d omitted", len(x.Result.Findings), x.Result.Omitted)
	}
	for _, x := range r.list(jobs.Within(t.Context(), "shop")) {
		if x.Target != "shop/a" || !x.Job {
			t.Errorf("namespace shop sees %+v", x)
		}
	}
	if _, ok := r.get(jobs.Within(t.Context(), "shop"), 1); ok {
		t.Error("namespace shop sees the run of a feed")
	}
}

// TestConfirm: a result can be confirmed once, within an hour, by people who may carry out the action.
func TestConfirm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		actions := &fakeActions{}
		confirm := actions.action("delete", "zones")
		actions.run = func(context.Context, func(string)) (Result, error) {
			return Result{Summary: "would delete", Confirm: &confirm}, nil
		}
		writer, ann := Credential{}, Credential{Namespaces: []string{"shop"}}
		writer.Bearer, ann.Bearer = "all", "ann"
		c, err := New(Config{WriteAuth: []Credential{writer, ann}, Actions: actions})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close(t.Context()) }()
		prepare := func() url.Values {
			w := submit(c, http.MethodPost, "/prune", url.Values{"feed": {"zones"}, "keep-pages": {"1"}}, asAll)
			synctest.Wait()
			_, id, _ := strings.Cut(w.Header().Get("Location"), "=")
			return url.Values{"run": {id}}
		}
		answer := func(form url.Values, as string, want int) {
			t.Helper()
			if w := submit(c, http.MethodPost, "/confirm", form, as); w.Code != want {
				t.Errorf("%v as %s: %d, want %d\n%s", form, as, w.Code, want, w.Body)
			}
			synctest.Wait()
		}
		form := prepare()
		page := want(t, c, 200, "/run?id="+form.Get("run"), asAll)
		if !strings.Contains(page, `action="confirm"`) || !strings.Contains(page, "About it.") {
			t.Errorf("the result cannot be confirmed:\n%s", page)
		}
		want(t, c, 404, "/run?id="+form.Get("run"), asAnn)
		answer(form, asAnn, 409) // the same answer as for a run that does not exist
		if len(actions.done) != 1 {
			t.Errorf("carried out: %v", actions.done)
		}
		answer(form, asAll, 303)
		answer(form, asAll, 409)
		if page := want(t, c, 200, "/run?id="+form.Get("run"), asAll); strings.Contains(page, `action="confirm"`) {
			t.Error("the result can be confirmed twice")
		}
		form = prepare()
		time.Sleep(confirmTime)
		answer(form, asAll, 409)
		if len(actions.done) != 3 || actions.done[1] != "delete zones" {
			t.Errorf("carried out: %v", actions.done)
		}

		wait := make(chan struct{})
		form = prepare()
		if _, err := c.startRun(httpRequest(t), waits(wait), &run{Target: "zones"}); err != nil {
			t.Fatal(err)
		}
		answer(form, asAll, 409) // the feed is busy
		close(wait)
		synctest.Wait()
		answer(form, asAll, 303)
	})
}
