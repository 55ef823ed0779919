package console

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/internal/problem"
	"github.com/feedctl/feedctl/internal/shell"
	"github.com/feedctl/feedctl/internal/units"
	"github.com/feedctl/feedctl/layout"
)

// confirmView asks a person to confirm an action.
type confirmView struct {
	page
	Verb, Target, About string
	State, Why          string // of a job
	Path                string // of the POST request
	Back                string // the page for a person who does not confirm
	Fields              []field
}

// A field is an input field of a form.
type field struct {
	Name, Label, Value, Hint string
	Hidden                   bool
}

// A feedVerb is an action on a feed.
type feedVerb struct {
	path, name, about string
	command           []string // the words before the feed
	flags             []string // an example of the flags, if some are needed
	fields            []field
	action            func(feed string, form url.Values) (Action, error)
}

func (c *Console) feedVerbs() []feedVerb {
	return []feedVerb{
		{
			path: "verify", name: "verify", about: "It reads the whole feed and checks it against the specification. It changes nothing.",
			command: []string{"verify"},
			action:  func(feed string, _ url.Values) (Action, error) { return c.config.Actions.Verify(feed) },
		},
		{
			path: "make-snapshot", name: "make a snapshot", about: "It reads the whole feed and writes a snapshot of its current state, with which new consumers can begin. Older snapshots are kept.",
			command: []string{"snapshot", "from-feed"},
			fields:  []field{{Name: "key", Label: "Key", Hint: "JSON Pointer to the key in each body; only for feeds whose entities have no Content-Location"}},
			action: func(feed string, form url.Values) (Action, error) {
				return c.config.Actions.Snapshot(feed, form.Get("key"))
			},
		},
		{
			path: "prune", name: "prune", about: "It first finds the pages that would be deleted. Nothing is deleted until you confirm it on the next page, which shows them. A page is kept if any of the rules keeps it; fill in at least one.",
			command: []string{"prune"}, flags: []string{"--keep-age", "30d", "--dry-run"},
			fields: []field{
				{Name: "keep-age", Label: "Keep age", Hint: "keep pages with an entity younger than this, such as 30d"},
				{Name: "keep-pages", Label: "Keep pages", Hint: "keep this many of the newest pages"},
				{Name: "before-snapshot", Label: "Before snapshot", Hint: "keep what is not in this snapshot: NAME or NAME/ID"},
			},
			action: func(feed string, form url.Values) (Action, error) {
				rules, err := parseRules(form)
				if err != nil {
					return Action{}, err
				}
				return c.config.Actions.Prune(feed, rules)
			},
		},
	}
}

// parseRules reads the form of pruning.
func parseRules(form url.Values) (rules PruneRules, err error) {
	var age units.Duration
	if text := form.Get("keep-age"); text != "" {
		if err := age.Set(text); err != nil {
			return rules, problem.New(http.StatusBadRequest, "form", "Keep age %.100q is not a duration, such as 30d: %v.", text, err)
		}
	}
	if text := form.Get("keep-pages"); text != "" {
		if rules.KeepPages, err = strconv.ParseInt(text, 10, 64); err != nil {
			return rules, problem.New(http.StatusBadRequest, "form", "Keep pages %.100q is not a number.", text)
		}
	}
	rules.KeepAge, rules.BeforeSnapshot = time.Duration(age), form.Get("before-snapshot")
	if rules == (PruneRules{}) {
		return rules, problem.New(http.StatusBadRequest, "form", "There is no rule: fill in keep age, keep pages or before snapshot.")
	}
	return rules, nil
}

// feedActions returns links to the actions on a feed, if the sender of the request may act.
func (c *Console) feedActions(r *http.Request, feed string) (links []link) {
	if c.config.Actions == nil || c.access.Writer(r) < 0 {
		return nil
	}
	for _, v := range c.feedVerbs() {
		links = append(links, link{v.name, v.path + "?" + url.Values{"feed": {feed}}.Encode()})
	}
	return links
}

// confirmFeed returns the handler of GET requests for an action on a feed. Its page asks for
// what the action needs, and for confirmation.
func (c *Console) confirmFeed(v feedVerb) func(*http.Request) (content, error) {
	return func(r *http.Request) (content, error) {
		feed := r.URL.Query().Get("feed")
		if err := layout.CheckName(feed); err != nil {
			return nil, err
		}
		if _, err := chain.NewReader(c.config.Store, feed).Newest(r.Context()); err != nil {
			return nil, err
		}
		words := append(append([]string{"feedctl"}, v.command...), feed, "--store", c.config.StoreName)
		return &confirmView{
			page: page{Title: v.name + ": " + feed, Command: shell.Line(append(words, v.flags...)...)},
			Verb: v.name, Target: feed, About: v.about, Path: v.path, Back: feedURL(feed),
			Fields: append([]field{{Name: "feed", Value: feed, Hidden: true}}, v.fields...),
		}, nil
	}
}

// postFeed returns the handler of POST requests, which start an action on a feed.
func (c *Console) postFeed(v feedVerb) func(*http.Request) (string, error) {
	return func(r *http.Request) (string, error) {
		if err := parseForm(r); err != nil {
			return "", err
		}
		feed := r.PostForm.Get("feed")
		if err := layout.CheckName(feed); err != nil {
			return "", err
		}
		a, err := v.action(feed, r.PostForm)
		if err != nil {
			return "", actionProblem(err)
		}
		return c.startRun(r, a, &run{Target: feed})
	}
}

// actionProblem returns the error that tells a person why an action is not carried out.
func actionProblem(err error) error {
	if _, ok := errors.AsType[*problem.Error](err); ok {
		return err
	}
	status := http.StatusBadRequest
	for _, refusal := range []error{errBusy, errTooMany, errClosing, errConfirmed} {
		if errors.Is(err, refusal) {
			status = http.StatusConflict
		}
	}
	return problem.New(status, "refused", "%v.", err)
}

// startRun starts an action in the background, and returns the URL of the page that shows it.
func (c *Console) startRun(r *http.Request, a Action, x *run) (string, error) {
	x.User = userOf(r)
	do := a.Run
	a.Run = func(ctx context.Context, progress func(string)) (Result, error) {
		c.log.Info("console action started", "action", a.Name, "target", x.Target, "user", x.User, "run", x.ID)
		return do(ctx, progress)
	}
	id, err := c.runs.start(a, x, func(ended run) { c.audit(ended, nil) })
	if err != nil {
		c.audit(*x, err)
		return "", actionProblem(err)
	}
	return runURL(id), nil
}

// audit logs who did what, and how it ended.
func (c *Console) audit(x run, refused error) {
	attrs := []any{"action", x.Action, "target", x.Target, "user", x.User, "run", x.ID}
	switch {
	case x.Ended.IsZero():
		c.log.Warn("console action refused", append(attrs, "error", refused)...)
	case x.Error != "":
		c.log.Warn("console action failed", append(attrs, "error", x.Error)...)
	default:
		c.log.Info("console action ended", append(attrs, "state", x.State(), "result", x.Result.Summary)...)
	}
}

func runURL(id int64) string { return "run?id=" + strconv.FormatInt(id, 10) }

// runView is the page of an action.
type runView struct {
	page
	Run     run
	Confirm *Action // the action that a person may start now
	Live    string
	Again   string
	Back    string
}

// getRun answers requests for "/run?id=NUMBER".
func (c *Console) getRun(r *http.Request) (content, error) {
	x, ok := c.runs.get(r.Context(), number(r.URL.Query().Get("id")))
	if !ok {
		return nil, problem.New(http.StatusNotFound, "no-run", "This action is not known: the console keeps the last %d, until its process ends.", keepRuns)
	}
	v := &runView{page: page{Title: x.Action + ": " + x.Target, Command: x.Command}, Run: x, Live: runURL(x.ID) + "&part=run", Again: runURL(x.ID), Back: feedURL(x.Target)}
	if x.Job {
		v.Back = jobURL(x.Target)
	}
	if c.runs.confirmable(&x) && c.mayActOn(r, &x) {
		v.Confirm = x.confirm
	}
	return v, nil
}

// postConfirm starts the action that the result of a run has prepared.
func (c *Console) postConfirm(r *http.Request) (string, error) {
	if err := parseForm(r); err != nil {
		return "", err
	}
	var see string
	err := c.runs.confirm(r.Context(), number(r.PostForm.Get("run")), func(x run, a Action) (err error) {
		see, err = c.startRun(r, a, &run{Target: x.Target, Job: x.Job})
		return err
	})
	if err != nil {
		return "", actionProblem(err)
	}
	return see, nil
}

// mayActOn reports whether the credentials of a request allow actions on the target of a run.
func (c *Console) mayActOn(r *http.Request, x *run) bool {
	if !x.Job {
		return c.access.Writer(r) >= 0
	}
	namespace, _ := splitID(x.Target)
	return c.mayActIn(r, namespace)
}

func (c *Console) actionRoutes() []route {
	routes := []route{
		{path: "/run", page: "run", get: c.getRun, forJobs: true},
		{path: "/confirm", post: c.postConfirm, forJobs: true},
	}
	if c.config.Actions == nil {
		return routes
	}
	for _, v := range c.feedVerbs() {
		routes = append(routes, route{path: "/" + v.path, page: "confirm", get: c.confirmFeed(v), post: c.postFeed(v)})
	}
	return routes
}
