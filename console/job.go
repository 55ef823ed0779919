package console

import (
	"bytes"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/internal/problem"
	"github.com/feedctl/feedctl/internal/shell"
	"github.com/feedctl/feedctl/jobs"
)

// Limits of what the page of a job shows, so that the page stays small whatever the job contains.
const (
	mostEvents = 20
	mostLines  = 25
	maxReason  = 150     // bytes of a reason in the history
	maxLead    = 500     // bytes of the reason for the state; the last error is shown whole
	maxPlace   = 200     // bytes of a position
	maxLine    = 250     // bytes of a line of the log
	maxFile    = 6 << 10 // bytes of the document
)

// jobView is the page of a job.
type jobView struct {
	page
	Job     *jobs.Description
	Row     jobRow
	ID      string
	Live    string // URL of the part that changes, for script
	Next    time.Time
	File    string // the document as a file of jobs
	FileCut bool
	Events  []jobs.Event
	Lines   []logLine // of the log, newest first
	More    int       // lines of the log that are not shown
	Actions []link
	Done    *run // the action that the person just carried out

	CommandLogs, CommandSame string
}

// A link leads to the page on which a person confirms an action.
type link struct{ Text, URL string }

// A logLine is a warning or an error of a run.
type logLine struct {
	Time  time.Time
	Level string
	Run   int64
	Node  string
	Text  string
}

// getJob answers requests for "/job?name=NAMESPACE/NAME".
func (c *Console) getJob(r *http.Request) (content, error) {
	d, err := c.describe(r, r.URL.Query().Get("name"))
	if err != nil {
		return nil, err
	}
	id := d.Document.ID()
	lines, err := c.config.Jobs.Logs(r.Context(), id, 0)
	if err != nil {
		return nil, jobsProblem(err)
	}
	v := &jobView{
		page:        page{Title: id, Command: shell.Line("feedctl", "jobs", "describe", id, "--db", c.config.JobsName)},
		Job:         d,
		Row:         c.jobRow(&d.Listed),
		ID:          id,
		Live:        jobURL(id) + "&part=job",
		Events:      d.Events[:min(len(d.Events), mostEvents)],
		CommandLogs: shell.Line("feedctl", "jobs", "logs", id, "--db", c.config.JobsName),
		CommandSame: d.Command,
	}
	for n := range v.Events {
		v.Events[n].Reason = cut(v.Events[n].Reason, maxReason)
	}
	if d.Job.State == jobs.Pending {
		v.Next = d.NotBefore
	}
	v.Lines, v.More = logTail(lines)
	if v.File, v.FileCut, err = fileOf(&d.Document); err != nil {
		return nil, err
	}
	if c.mayActIn(r, d.Document.Namespace) {
		v.Actions = c.jobActions(d)
	}
	if done, ok := c.runs.get(r.Context(), number(r.URL.Query().Get("run"))); ok && done.Job && done.Target == id {
		v.Done = &done
	}
	return v, nil
}

// describe returns all that is known about a job that a request names.
func (c *Console) describe(r *http.Request, id string) (*jobs.Description, error) {
	if err := checkID(r, id); err != nil {
		return nil, err
	}
	d, err := c.config.Jobs.Describe(r.Context(), id)
	if err != nil {
		return nil, jobsProblem(err)
	}
	d.Why = cut(d.Why, maxLead)
	if s := d.Stats; s != nil {
		s.Position, s.SourcePosition = cut(s.Position, maxPlace), cut(s.SourcePosition, maxPlace)
	}
	return d, nil
}

// checkID returns an error if id is not the name of a job, or the sender of the request must not see that job.
func checkID(r *http.Request, id string) error {
	namespace, name := splitID(id)
	if namespace == "" || name == "" || human.Printable(id) != id {
		return problem.New(http.StatusBadRequest, "name", "%.100q is not the name of a job: want NAMESPACE/NAME.", id)
	}
	if !jobs.Visible(r.Context(), namespace) {
		return forbidden(namespace)
	}
	return nil
}

// fileOf returns a document in the form of a file of jobs. Credentials are references, as in the output of
// "feedctl jobs export".
func fileOf(d *jobs.Document) (text string, isCut bool, err error) {
	var b bytes.Buffer
	one := iter.Seq2[jobs.Document, error](func(yield func(jobs.Document, error) bool) { yield(*d, nil) })
	if err := jobs.WriteYAML(&b, one); err != nil {
		return "", false, err
	}
	return cut(b.String(), maxFile), b.Len() > maxFile, nil
}

// logTail returns the last lines of a log, newest first, and the number of lines left out.
func logTail(lines []jobs.LogLine) (tail []logLine, more int) {
	for n := range slices.Backward(lines) {
		l := &lines[n]
		if len(tail) == mostLines {
			return tail, n + 1
		}
		text := l.Message
		for _, name := range slices.Sorted(maps.Keys(l.Attrs)) {
			text += " " + name + "=" + l.Attrs[name]
		}
		tail = append(tail, logLine{l.Time, strings.ToLower(l.Level), l.Run, l.Node, cut(text, maxLine)})
	}
	return tail, 0
}

// LeaseAge returns a text that says how long ago the node of a job last extended its lease.
func (v *jobView) LeaseAge() string {
	if v.Job.Lease == nil || v.Job.Lease.Age < 0 {
		return ""
	}
	return human.Duration(v.Job.Lease.Age) + " ago"
}
