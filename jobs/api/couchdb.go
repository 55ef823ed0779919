package api

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/feedctl/feedctl/jobs"
	"github.com/feedctl/feedctl/sink"
)

// The views in this file have the form of CouchDB's (API reference, "/_scheduler/jobs",
// "/_scheduler/docs" and "/_active_tasks"), so that scripts for CouchDB's replicator can read them.
// A namespace is the database NAMESPACE/_replicator, and a job a document in it.

const replicator = "/_replicator"

// A couchJob is an entry of /_scheduler/jobs.
type couchJob struct {
	ID        string       `json:"id"`
	PID       *string      `json:"pid"` // null if the job is not running
	Source    string       `json:"source"`
	Target    string       `json:"target"`
	Database  *string      `json:"database"` // null for a job of POST /api/v1/runs
	User      *string      `json:"user"`
	DocID     *string      `json:"doc_id"` // null if Database is
	Info      *couchInfo   `json:"info"`   // null before the first statistics
	History   []couchEvent `json:"history"`
	Node      *string      `json:"node"` // where the job last ran
	StartTime string       `json:"start_time"`
}

// A couchDoc is an entry of /_scheduler/docs.
type couchDoc struct {
	DocID       string  `json:"doc_id"`
	Database    string  `json:"database"`
	ID          *string `json:"id"` // null for a job that has ended
	Node        *string `json:"node"`
	Source      string  `json:"source"`
	Target      string  `json:"target"`
	State       string  `json:"state"`
	Info        any     `json:"info"` // couchInfo or couchError
	ErrorCount  int64   `json:"error_count"`
	LastUpdated string  `json:"last_updated"`
	StartTime   string  `json:"start_time"`
	SourceProxy *string `json:"source_proxy"` // always null
	TargetProxy *string `json:"target_proxy"`
}

// A couchTask is an entry of /_active_tasks.
type couchTask struct {
	couchInfo
	Type               string  `json:"type"`
	Node               *string `json:"node"`
	PID                *string `json:"pid"`
	ProcessStatus      string  `json:"process_status"`
	ReplicationID      string  `json:"replication_id"`
	Database           *string `json:"database"`
	DocID              *string `json:"doc_id"`
	User               *string `json:"user"`
	Source             string  `json:"source"`
	Target             string  `json:"target"`
	Continuous         bool    `json:"continuous"`
	CheckpointInterval int64   `json:"checkpoint_interval"` // in milliseconds
	StartedOn          int64   `json:"started_on"`          // Unix time
	UpdatedOn          int64   `json:"updated_on"`
}

// couchJobs is a page of /_scheduler/jobs, and couchDocs is a page of /_scheduler/docs. They are used only to
// describe the API.
type (
	couchJobs struct {
		TotalRows int        `json:"total_rows"`
		Offset    int        `json:"offset"`
		Jobs      []couchJob `json:"jobs"`
	}
	couchDocs struct {
		TotalRows int        `json:"total_rows"`
		Offset    int        `json:"offset"`
		Docs      []couchDoc `json:"docs"`
	}
)

type couchInfo struct {
	RevisionsChecked      int64  `json:"revisions_checked"`
	MissingRevisionsFound int64  `json:"missing_revisions_found"`
	DocsRead              int64  `json:"docs_read"`
	DocsWritten           int64  `json:"docs_written"`
	DocWriteFailures      int64  `json:"doc_write_failures"`
	BulkGetAttempts       int64  `json:"bulk_get_attempts"`
	BulkGetDocs           int64  `json:"bulk_get_docs"`
	ChangesPending        *int64 `json:"changes_pending"` // null if unknown
	CheckpointedSourceSeq any    `json:"checkpointed_source_seq"`
	SourceSeq             any    `json:"source_seq"`
	ThroughSeq            any    `json:"through_seq"`
}

type couchError struct {
	Error string `json:"error"`
}

type couchEvent struct {
	Timestamp string `json:"timestamp"`
	Type      string `json:"type"`
	Reason    string `json:"reason,omitempty"` // of a crash
}

// couchStates maps our states to the names that CouchDB has for them.
var couchStates = map[jobs.State]string{
	jobs.Pending: "pending", jobs.Paused: "pending",
	jobs.Running: "running", jobs.Idle: "running",
	jobs.Crashing: "crashing", jobs.Completed: "completed", jobs.Failed: "failed",
}

// couchEvents maps our types of events to CouchDB's; all others are "stopped".
var couchEvents = map[jobs.EventType]string{
	jobs.EventAdded: "added", jobs.EventChanged: "added", jobs.EventResumed: "added", jobs.EventRestarted: "added",
	jobs.EventStarted: "started",
	jobs.EventCrashed: "crashed", jobs.EventAdopted: "crashed", jobs.EventFailed: "crashed",
}

// statesAs returns the states for which CouchDB has one of the given names.
func statesAs(names ...string) (states []jobs.State) {
	for _, state := range jobs.States() {
		if slices.Contains(names, couchStates[state]) {
			states = append(states, state)
		}
	}
	return states
}

// A viewed is a job with its history.
type viewed struct {
	*jobs.Listed
	events []jobs.Event
}

// views returns jobs with their histories. With onlyNodes, it reads only the histories of jobs
// without a node.
func (a *API) views(ctx context.Context, page []jobs.Listed, onlyNodes bool) ([]viewed, error) {
	var ids []string
	for n := range page {
		if !onlyNodes || page[n].Node == "" {
			ids = append(ids, page[n].Document.ID())
		}
	}
	events, err := a.jobs.Histories(ctx, ids...)
	if err != nil {
		return nil, err
	}
	all := make([]viewed, len(page))
	for n := range page {
		all[n] = viewed{&page[n], events[page[n].Document.ID()]}
	}
	return all, nil
}

// couchTime returns a time in CouchDB's form.
func couchTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// startTime returns when the job was last started or, if it never was, added.
func (v *viewed) startTime() time.Time {
	if v.Started.IsZero() {
		return v.Since
	}
	return v.Started
}

func (v *viewed) node() *string {
	if v.Node != "" {
		return &v.Node
	}
	for n := range v.events {
		if v.events[n].Node != "" {
			return &v.events[n].Node
		}
	}
	return nil
}

// pid returns a name for the run of a running job.
func (v *viewed) pid() *string {
	if couchStates[v.State] != "running" {
		return nil
	}
	pid := "<" + strconv.FormatInt(v.Epoch, 10) + ">"
	return &pid
}

func (v *viewed) database() *string {
	if v.Transient {
		return nil
	}
	name := v.Document.Namespace + replicator
	return &name
}

func (v *viewed) docID() *string {
	if v.Transient {
		return nil
	}
	return &v.Document.Name
}

func (v *viewed) info() *couchInfo {
	if v.Stats == nil {
		return nil
	}
	s := v.Stats
	read := s.Entities + s.Rejected
	i := &couchInfo{
		RevisionsChecked: read + s.Repeated, MissingRevisionsFound: read,
		DocsRead: read, DocsWritten: s.Entities, DocWriteFailures: s.Rejected,
		BulkGetAttempts: read, BulkGetDocs: read,
		CheckpointedSourceSeq: sequence(s.Position), ThroughSeq: sequence(s.Position), SourceSeq: sequence(s.SourcePosition),
	}
	switch {
	case v.State == jobs.Completed:
		i.ChangesPending = new(int64)
	case s.Pending >= 0:
		i.ChangesPending = &s.Pending
	}
	if s.SourcePosition == "" {
		i.SourceSeq = i.ThroughSeq
	}
	return i
}

// sequence returns a position or, if there is none, 0, which is CouchDB's first sequence.
func sequence(position string) any {
	if position == "" {
		return 0
	}
	return position
}

func (v *viewed) couchJob() any {
	j := couchJob{
		ID: v.Document.ID(), PID: v.pid(), Source: sink.Redact(v.Document.Source), Target: sink.Redact(v.Document.Target),
		Database: v.database(), DocID: v.docID(), Info: v.info(), History: []couchEvent{}, Node: v.node(), StartTime: couchTime(v.Created),
	}
	for _, e := range v.events {
		c := couchEvent{Timestamp: couchTime(e.Time), Type: cmp.Or(couchEvents[e.Type], "stopped")}
		if c.Type == "crashed" {
			c.Reason = e.Reason
		}
		j.History = append(j.History, c)
	}
	return j
}

func (v *viewed) couchDoc() any {
	id := v.Document.ID()
	d := couchDoc{
		DocID: v.Document.Name, Database: v.Document.Namespace + replicator, ID: &id, Node: v.node(),
		Source: sink.Redact(v.Document.Source), Target: sink.Redact(v.Document.Target),
		State: couchStates[v.State], ErrorCount: v.Errors, LastUpdated: couchTime(v.lastUpdated()), StartTime: couchTime(v.Created),
	}
	switch info := v.info(); {
	case v.State == jobs.Crashing || v.State == jobs.Failed:
		d.Info = couchError{v.Reason}
	case info != nil:
		d.Info = info
	}
	if v.Finished() {
		d.ID = nil
	}
	return d
}

func (v *viewed) lastUpdated() time.Time {
	if len(v.events) == 0 {
		return v.Since
	}
	return v.events[0].Time
}

// couchTask returns the task of a job. The interval is that at which statistics are written.
func (v *viewed) couchTask(interval time.Duration) any {
	t := couchTask{
		Type: "replication", Node: v.node(), PID: v.pid(), ProcessStatus: "running", ReplicationID: v.Document.ID(),
		Database: v.database(), DocID: v.docID(), Source: sink.Redact(v.Document.Source), Target: sink.Redact(v.Document.Target),
		Continuous: v.Document.Follow, CheckpointInterval: interval.Milliseconds(),
		StartedOn: v.startTime().Unix(), UpdatedOn: v.startTime().Unix(),
	}
	if v.State == jobs.Idle {
		t.ProcessStatus = "waiting"
	}
	if v.Updated.After(v.startTime()) {
		t.UpdatedOn = v.Updated.Unix()
	}
	if info := v.info(); info != nil {
		t.couchInfo = *info
	} else {
		t.couchInfo = couchInfo{CheckpointedSourceSeq: 0, SourceSeq: 0, ThroughSeq: 0}
	}
	return t
}

// A couchFilter selects the jobs of a view, and limits their number.
type couchFilter struct {
	jobs.Filter
	none  bool // no job can be in the view
	limit int
	// onlyNodes: only [viewed.node] needs the histories, so those of jobs with a node are not read.
	onlyNodes bool
}

// paged reads the parameters of a page.
func (f *couchFilter) paged(p *parameters) {
	f.limit, f.Skip = p.number("limit", jobs.DefaultLimit), p.number("skip", 0)
}

// atOnce is how many jobs a view holds in memory at once, with their histories.
const atOnce = 200

// each calls do for the jobs of a view, page by page.
func (a *API) each(ctx context.Context, f couchFilter, do func(v *viewed) error) error {
	for left := f.limit; left > 0 && !f.none; {
		f.Limit = min(left, atOnce)
		page, err := a.jobs.List(ctx, f.Filter)
		if err != nil {
			return err
		}
		all, err := a.views(ctx, page.Jobs, f.onlyNodes)
		if err != nil {
			return err
		}
		for n := range all {
			if err := do(&all[n]); err != nil {
				return err
			}
		}
		if page.Next == "" {
			break
		}
		left -= len(page.Jobs)
		f.After, f.Skip = page.Next, 0
	}
	return nil
}

// sendView answers with an object whose member with the given name is the list of jobs, as CouchDB
// does.
func (a *API) sendView(w http.ResponseWriter, r *http.Request, f couchFilter, member string, row func(*viewed) any) error {
	total := 0
	if !f.none {
		totals, err := a.jobs.Totals(r.Context(), f.Filter)
		if err != nil {
			return err
		}
		for _, n := range totals {
			total += n
		}
	}
	begin := fmt.Sprintf(`{"total_rows":%d,"offset":%d,%q:[`, total, min(f.Skip, total), member)
	return a.sendRows(w, r, f, row, begin, "]}\n")
}

// sendRows answers with the jobs of a view, separated by commas, between two strings. It sends
// them as it reads them, since there may be many.
func (a *API) sendRows(w http.ResponseWriter, r *http.Request, f couchFilter, row func(*viewed) any, begin, end string) error {
	return a.stream(w, r, "application/json", func(out io.Writer) error {
		before := begin
		err := a.each(r.Context(), f, func(v *viewed) error {
			text, err := json.Marshal(row(v))
			if err == nil {
				_, err = fmt.Fprintf(out, "%s%s", before, text)
			}
			before = ","
			return err
		})
		if err != nil {
			return err
		}
		if before == begin {
			end = begin + end
		}
		_, err = io.WriteString(out, end)
		return err
	})
}

func (a *API) schedulerJobs(w http.ResponseWriter, r *http.Request) error {
	p := query(r)
	f := couchFilter{Filter: jobs.Filter{States: statesAs("pending", "running", "crashing")}}
	f.paged(p)
	if p.err != nil {
		return p.err
	}
	return a.sendView(w, r, f, "jobs", (*viewed).couchJob)
}

func (a *API) schedulerDocs(w http.ResponseWriter, r *http.Request) error {
	p := query(r)
	f := couchFilter{Filter: jobs.Filter{Namespace: chi.URLParam(r, "namespace"), Persistent: true}}
	f.paged(p)
	if names := p.list("states"); len(names) > 0 {
		for n, name := range names {
			names[n] = strings.ToLower(name)
			if known := []string{"initializing", "error", "pending", "running", "crashing", "completed", "failed"}; !slices.Contains(known, names[n]) {
				p.invalid("unknown state %.100q: want one or more of %v", name, known)
			}
		}
		f.States = statesAs(names...)
		f.none = len(f.States) == 0
	}
	if p.err != nil {
		return p.err
	}
	return a.sendView(w, r, f, "docs", (*viewed).couchDoc)
}

func (a *API) schedulerJob(w http.ResponseWriter, r *http.Request) error {
	d, err := a.jobs.Describe(r.Context(), id(r))
	if err != nil {
		return err
	}
	v := viewed{&d.Listed, d.Events}
	return answer(w, http.StatusOK, v.couchJob())
}

func (a *API) schedulerDoc(w http.ResponseWriter, r *http.Request) error {
	d, err := a.jobs.Describe(r.Context(), id(r))
	if err == nil && d.Transient {
		err = jobs.ErrNoJob
	}
	if err != nil {
		return err
	}
	v := viewed{&d.Listed, d.Events}
	return answer(w, http.StatusOK, v.couchDoc())
}

func (a *API) activeTasks(w http.ResponseWriter, r *http.Request) error {
	settings, err := a.jobs.Settings(r.Context())
	if err != nil {
		return err
	}
	f := couchFilter{Filter: jobs.Filter{States: statesAs("running")}, limit: math.MaxInt, onlyNodes: true}
	return a.sendRows(w, r, f, func(v *viewed) any { return v.couchTask(settings.StatsInterval) }, "[", "]\n")
}
