package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/internal/problem"
	"github.com/feedctl/feedctl/internal/shell"
	"github.com/feedctl/feedctl/jobs"
)

// Jobs gives access to the jobs of a scheduler. A [*jobs.Scheduler] implements it. For people whose credentials are
// limited to namespaces, the contexts passed to its methods come from [jobs.Within].
type Jobs interface {
	List(ctx context.Context, f jobs.Filter) (jobs.Page, error)
	Totals(ctx context.Context, f jobs.Filter) (map[jobs.State]int, error)
	Describe(ctx context.Context, id string) (*jobs.Description, error)
	Logs(ctx context.Context, id string, after int64) ([]jobs.LogLine, error)
	Nodes(ctx context.Context) ([]jobs.NodeStatus, error)
	Origins(ctx context.Context) ([]jobs.OriginStatus, error)
	Tenants(ctx context.Context) ([]jobs.TenantStatus, error)
	Pause(ctx context.Context, ids ...string) (int, error)
	Resume(ctx context.Context, ids ...string) (int, error)
	Restart(ctx context.Context, ids ...string) (int, error)
}

const (
	jobsAPage = 50  // jobs on a page of the list
	maxFilter = 300 // bytes of a filter
)

// jobsView is a page of the list of jobs.
type jobsView struct {
	page
	Form    jobsForm
	States  []stateCount // filters, with "all" first
	Rows    []jobRow
	Live    string // URL of the list, for script
	First   string // URL of the first page; "" if this is the first
	Next    string // URL of the next page, if there is one
	Limited []string
}

// jobsForm holds the filters of a list of jobs, as in its URL.
type jobsForm struct {
	Name, Kind, Namespace, Label, Origin string
	States                               []string
}

// A stateCount is a filter by state.
type stateCount struct {
	State   string // "" for all
	Count   int
	URL     string
	Current bool
}

// A jobRow is a job in a list.
type jobRow struct {
	ID, URL, Kind, State string
	Since, Next, Now     time.Time
	Why                  string
	Node                 string
	Rate                 string // entities a second; "" if that is not known
	Pending, Lag         string // "" if they are not known
	Rejected             string // number of rejected entities
	Errors               int64
}

// getJobs answers requests for "/jobs".
func (c *Console) getJobs(r *http.Request) (content, error) {
	query := r.URL.Query()
	form := jobsForm{
		Name: query.Get("name"), Kind: query.Get("kind"), Namespace: query.Get("namespace"),
		Label: query.Get("label"), Origin: query.Get("origin"), States: slices.Compact(slices.Sorted(slices.Values(query["state"]))),
	}
	filter, err := form.filter(r.Context())
	if err != nil {
		return nil, err
	}
	totals, err := c.config.Jobs.Totals(r.Context(), filter)
	if err != nil {
		return nil, jobsProblem(err)
	}
	for _, state := range form.States {
		filter.States = append(filter.States, jobs.State(state))
	}
	filter.Limit, filter.After = jobsAPage, query.Get("after")
	if filter.After != "" && !strings.Contains(filter.After, "/") {
		return nil, problem.New(http.StatusBadRequest, "filter", "A list cannot continue after %.100q: follow the links of the list.", filter.After)
	}
	found, err := c.config.Jobs.List(r.Context(), filter)
	if err != nil {
		return nil, jobsProblem(err)
	}
	v := &jobsView{
		page: page{Title: "Jobs", Command: form.command(c.config.JobsName)},
		Form: form, States: form.counts(totals), Live: form.url(filter.After) + "&part=list", Limited: namespacesOf(r),
	}
	for n := range found.Jobs {
		v.Rows = append(v.Rows, c.jobRow(&found.Jobs[n]))
	}
	if filter.After != "" {
		v.First = form.url("")
	}
	if found.Next != "" {
		v.Next = form.url(found.Next)
	}
	return v, nil
}

// filter returns the filter of jobs in any state.
func (f *jobsForm) filter(ctx context.Context) (jobs.Filter, error) {
	filter := jobs.Filter{Name: f.Name, Kind: f.Kind, Namespace: f.Namespace, Origin: f.Origin}
	for _, text := range append([]string{f.Name, f.Kind, f.Namespace, f.Label, f.Origin}, f.States...) {
		if len(text) > maxFilter || text != "" && human.Printable(text) != text {
			return filter, problem.New(http.StatusBadRequest, "filter", "A filter has more than %d bytes, or characters that cannot be printed.", maxFilter)
		}
	}
	for _, state := range f.States {
		if !slices.Contains(jobs.States(), jobs.State(state)) {
			return filter, problem.New(http.StatusBadRequest, "filter", "There is no state %.100q: want one of %v.", state, jobs.States())
		}
	}
	if f.Namespace != "" && !jobs.Visible(ctx, f.Namespace) {
		return filter, forbidden(f.Namespace)
	}
	if f.Label != "" {
		name, value, ok := strings.Cut(f.Label, "=")
		if !ok || name == "" {
			return filter, problem.New(http.StatusBadRequest, "filter", "The label %.100q is not NAME=VALUE.", f.Label)
		}
		filter.Labels = map[string]string{name: value}
	}
	return filter, nil
}

// values returns the filters that are set.
func (f *jobsForm) values(states []string) url.Values {
	values := url.Values{}
	for name, value := range map[string]string{"name": f.Name, "kind": f.Kind, "namespace": f.Namespace, "label": f.Label, "origin": f.Origin} {
		if value != "" {
			values.Set(name, value)
		}
	}
	if len(states) > 0 {
		values["state"] = states
	}
	return values
}

// url returns the relative URL of the part of the list that begins after the given job.
func (f *jobsForm) url(after string) string {
	values := f.values(f.States)
	if after != "" {
		values.Set("after", after)
	}
	return "jobs?" + values.Encode()
}

// counts returns the filters by state.
func (f *jobsForm) counts(totals map[jobs.State]int) []stateCount {
	all := 0
	counts := []stateCount{{URL: "jobs?" + f.values(nil).Encode(), Current: len(f.States) == 0}}
	for _, state := range jobs.States() {
		all += totals[state]
		current := slices.Contains(f.States, string(state))
		counts = append(counts, stateCount{string(state), totals[state], "jobs?" + f.values([]string{string(state)}).Encode(), current})
	}
	counts[0].Count = all
	return counts
}

// command returns the command line that lists the same jobs.
func (f *jobsForm) command(db string) string {
	words := []string{"feedctl", "jobs", "list", "--db", db}
	for _, flag := range [][2]string{{"-n", f.Namespace}, {"--kind", f.Kind}, {"--origin", f.Origin}, {"--selector", f.Label}, {"--state", strings.Join(f.States, ",")}} {
		if flag[1] != "" {
			words = append(words, flag[0], flag[1])
		}
	}
	command := shell.Line(words...)
	if f.Name != "" {
		command += " | " + shell.Line("grep", "-F", "--", f.Name)
	}
	return command
}

// maxWhy is the maximum length, in bytes, of the reason for a state as shown in a list.
const maxWhy = 160

// jobRow returns what a list shows of a job.
func (c *Console) jobRow(j *jobs.Listed) jobRow {
	id := j.Document.ID()
	row := jobRow{
		ID: id, URL: jobURL(id), Kind: j.Document.Kind, State: string(j.State), Since: j.Since, Now: j.Now,
		Why: cut(j.Reason, maxWhy), Node: j.Node, Errors: j.Errors,
	}
	if row.Why == "" && j.LastError != nil && j.State != jobs.Idle {
		row.Why = cut("last error: "+j.LastError.Message, maxWhy)
	}
	if j.Job.State == jobs.Pending {
		row.Next = j.NotBefore
	}
	if s := j.Stats; s != nil {
		row.Rejected, row.Rate = human.Count(s.Rejected), c.rates.of(id, s.Entities, j.Updated, j.Job.State == jobs.Running)
		if s.Pending >= 0 {
			row.Pending = human.Count(s.Pending)
		}
		if s.Lag >= 0 {
			row.Lag = human.Duration(s.Lag)
		}
	}
	return row
}

// jobURL returns the relative URL of the page of a job.
func jobURL(id string) string { return "job?" + url.Values{"name": {id}}.Encode() }

// splitID splits the ID of a job.
func splitID(id string) (namespace, name string) {
	namespace, name, _ = strings.Cut(id, "/")
	return namespace, name
}

// forbidden returns the error for a person whose credentials do not include a namespace; it does not reveal whether
// the job exists.
func forbidden(namespace string) error {
	return problem.New(http.StatusForbidden, "forbidden", "Your credentials are not for the namespace %.100q.", namespace)
}

// jobsProblem returns an error that describes an error of the scheduler to a person.
func jobsProblem(err error) error {
	var p *problem.Error
	switch {
	case errors.As(err, &p):
		return err
	case errors.Is(err, jobs.ErrNoJob):
		p = problem.New(http.StatusNotFound, "no-job", "There is no such job.")
	case errors.Is(err, jobs.ErrTaken), errors.Is(err, jobs.ErrFollows):
		p = problem.New(http.StatusConflict, "conflict", "%v", err)
	case errors.Is(err, context.DeadlineExceeded), jobs.Unavailable(err):
		p = problem.New(http.StatusServiceUnavailable, "unavailable", "The database of jobs does not answer: reload the page later.")
	default:
		p = problem.New(http.StatusInternalServerError, "failed", "The console could not read the database of jobs; its log has the reason.")
	}
	p.Cause = fmt.Errorf("read jobs: %w", err)
	return p
}
