package console

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"github.com/feedctl/feedctl/internal/problem"
	"github.com/feedctl/feedctl/internal/shell"
	"github.com/feedctl/feedctl/jobs"
)

// JobActions makes the actions on jobs that the console carries out in the background.
type JobActions interface {
	// Offered returns the actions for a job, such as retrying what is in quarantine. It uses no network.
	Offered(d *jobs.Document) []Action
}

// A jobVerb changes the state of a job at once.
type jobVerb struct {
	name, about   string
	past, already string // texts after the name of a job that was changed, and of one that was not
	do            func(j Jobs, ctx context.Context, ids ...string) (int, error)
	offered       func(d *jobs.Description) bool
}

func jobVerbs() []jobVerb {
	return []jobVerb{
		{
			name: "pause", about: "It stops at its next checkpoint, and stays paused until it is resumed, or until \"feedctl jobs apply\" changes \"paused\" in its file.",
			past: "is paused", already: "was paused before, or has ended", do: Jobs.Pause,
			offered: func(d *jobs.Description) bool { return !d.Document.Paused && !d.Finished() },
		},
		{
			name: "resume", about: "It is due at once; one with a schedule waits for its next time.",
			past: "is resumed", already: "was not paused", do: Jobs.Resume,
			offered: func(d *jobs.Description) bool { return d.Document.Paused },
		},
		{
			name: "restart", about: "It is due at once, even if it was waiting or has ended. Its errors are forgotten, its position is not. A run in progress is not interrupted.",
			past: "is due now", already: "is running, or is paused", do: Jobs.Restart,
			offered: func(d *jobs.Description) bool { return d.Job.State != jobs.Running && !d.Document.Paused },
		},
	}
}

// command returns the command line of a verb.
func (v *jobVerb) command(id, db string) string {
	return shell.Line("feedctl", "jobs", v.name, id, "--db", db)
}

// action returns the action that changes the state of a job.
func (v *jobVerb) action(j Jobs, id, db string) Action {
	return Action{Name: v.name, Command: v.command(id, db), Run: func(ctx context.Context, _ func(string)) (Result, error) {
		changed, err := v.do(j, ctx, id)
		if changed == 0 {
			return Result{Summary: id + " " + v.already}, err
		}
		return Result{Summary: id + " " + v.past}, err
	}}
}

// jobActions returns links to the actions on a job.
func (c *Console) jobActions(d *jobs.Description) (links []link) {
	id := d.Document.ID()
	for _, v := range jobVerbs() {
		if v.offered(d) {
			links = append(links, link{v.name, v.name + "?" + url.Values{"job": {id}}.Encode()})
		}
	}
	if c.config.JobActions == nil {
		return links
	}
	for _, a := range c.config.JobActions.Offered(&d.Document) {
		links = append(links, link{a.Name, "act?" + url.Values{"job": {id}, "action": {a.Name}}.Encode()})
	}
	return links
}

// confirmJob returns the handler of GET requests for a verb. Its page asks for confirmation.
func (c *Console) confirmJob(v jobVerb) func(*http.Request) (content, error) {
	return func(r *http.Request) (content, error) {
		d, err := c.describe(r, r.URL.Query().Get("job"))
		if err != nil {
			return nil, err
		}
		id := d.Document.ID()
		return &confirmView{
			page: page{Title: v.name + " " + id, Command: v.command(id, c.config.JobsName)},
			Verb: v.name, Target: id, About: v.about, State: string(d.Listed.State), Why: d.Why,
			Path: v.name, Back: jobURL(id), Fields: []field{{Name: "job", Value: id, Hidden: true}},
		}, nil
	}
}

// postJob returns the handler of POST requests, which change the state of a job.
func (c *Console) postJob(v jobVerb) func(*http.Request) (string, error) {
	return func(r *http.Request) (string, error) {
		id, err := c.formJob(r)
		if err != nil {
			return "", err
		}
		done, err := c.carryOut(r, v.action(c.config.Jobs, id, c.config.JobsName), &run{Target: id, Job: true})
		if errors.Is(err, errClosing) {
			return "", actionProblem(err)
		}
		if err != nil {
			return "", jobsProblem(err)
		}
		return jobURL(id) + "&run=" + strconv.FormatInt(done.ID, 10), nil
	}
}

// formJob returns the job that a form names.
func (c *Console) formJob(r *http.Request) (id string, err error) {
	if err := parseForm(r); err != nil {
		return "", err
	}
	id = r.PostForm.Get("job")
	return id, checkID(r, id)
}

// offered returns the job with the given ID, and the action with the given name that is offered for it.
func (c *Console) offered(r *http.Request, id, name string) (*jobs.Description, Action, error) {
	d, err := c.describe(r, id)
	if err != nil {
		return nil, Action{}, err
	}
	for _, a := range c.config.JobActions.Offered(&d.Document) {
		if a.Name == name {
			return d, a, nil
		}
	}
	return nil, Action{}, problem.New(http.StatusNotFound, "no-action", "A job of kind %.100q has no action %.100q.", d.Document.Kind, name)
}

// confirmOffered answers requests for "/act?job=NAME&action=ACTION".
func (c *Console) confirmOffered(r *http.Request) (content, error) {
	query := r.URL.Query()
	d, a, err := c.offered(r, query.Get("job"), query.Get("action"))
	if err != nil {
		return nil, err
	}
	id := d.Document.ID()
	return &confirmView{
		page: page{Title: a.Name + ": " + id, Command: a.Command},
		Verb: a.Name, Target: id, About: a.About, State: string(d.Listed.State), Why: d.Why,
		Path: "act", Back: jobURL(id), Fields: []field{{Name: "job", Value: id, Hidden: true}, {Name: "action", Value: a.Name, Hidden: true}},
	}, nil
}

// postOffered starts an action for a job.
func (c *Console) postOffered(r *http.Request) (string, error) {
	id, err := c.formJob(r)
	if err != nil {
		return "", err
	}
	_, a, err := c.offered(r, id, r.PostForm.Get("action"))
	if err != nil {
		return "", err
	}
	return c.startRun(r, a, &run{Target: id, Job: true})
}

func (c *Console) jobRoutes() []route {
	routes := []route{
		{path: "/jobs", nav: "Jobs", page: "jobs", get: c.getJobs, forJobs: true},
		{path: "/job", page: "job", get: c.getJob, forJobs: true},
		{path: "/nodes", page: "nodes", get: c.getNodes, forJobs: true},
	}
	if c.config.Feeds == nil {
		routes = append(routes, route{path: "/", page: "jobs", get: c.getJobs, forJobs: true})
	}
	for _, v := range jobVerbs() {
		routes = append(routes, route{path: "/" + v.name, page: "confirm", get: c.confirmJob(v), post: c.postJob(v), forJobs: true})
	}
	if c.config.JobActions != nil {
		routes = append(routes, route{path: "/act", page: "confirm", get: c.confirmOffered, post: c.postOffered, forJobs: true})
	}
	return routes
}

// number returns the number in a part of a URL, or 0 if it is not a number.
func number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// parseForm reads the form of an action.
func parseForm(r *http.Request) error {
	if err := r.ParseForm(); err != nil {
		return problem.New(http.StatusBadRequest, "form", "The form cannot be read: %v.", err)
	}
	for name, values := range r.PostForm {
		if len(values) > 1 {
			return problem.New(http.StatusBadRequest, "form", "The field %.100q is given %d times.", name, len(values))
		}
	}
	return nil
}

// carryOut runs an action at once.
func (c *Console) carryOut(r *http.Request, a Action, x *run) (run, error) {
	x.User = userOf(r)
	done, err := c.runs.do(r.Context(), a, x)
	c.audit(done, err)
	return done, err
}
