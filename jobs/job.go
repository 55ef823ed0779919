package jobs

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// A Job is a document and where the job stands. Times are by the clock of the database.
type Job struct {
	Document   Document `json:"document"`
	Generation int64    `json:"generation"` // how many times the document was changed
	// Created is when the job was added or, if it was deleted in between, added for the last time.
	Created time.Time `json:"created,omitzero"`
	// Transient reports whether the job was added by [Scheduler.RunOnce].
	Transient bool `json:"transient,omitempty"`
	// Retry reports whether a transient job is tried again after errors, as other jobs are.
	Retry bool `json:"retry,omitempty"`

	State  State  `json:"state"`
	Reason string `json:"reason,omitempty"` // explains the state
	// Epoch identifies the last run. It grows with each run, even if the job is deleted and created
	// again in between.
	Epoch int64  `json:"epoch"`
	Owner string `json:"owner,omitempty"` // incarnation of the node that runs the job
	// Observed is the generation with which the last run was started.
	Observed int64 `json:"observed"`
	// Wanted counts the reasons to run, and Seen is how many of these have been handled by runs.
	Wanted int64 `json:"wanted"`
	Seen   int64 `json:"seen"`
	// NotBefore is the earliest time of the next run.
	NotBefore time.Time `json:"notBefore,omitzero"`
	Errors    int64     `json:"errors,omitempty"` // consecutive
	Started   time.Time `json:"started,omitzero"` // last
	Stopped   time.Time `json:"stopped,omitzero"` // last
	Succeeded time.Time `json:"succeeded,omitzero"`
	Since     time.Time `json:"since,omitzero"` // when the job entered its state
	// LastError is the error of the last run that failed; nil if no run has failed since the
	// document was changed.
	LastError *RunError `json:"lastError,omitempty"`

	events  int64
	text    string // the document, as stored
	stored  State
	fence   int64     // the epoch, as stored
	origins [2]string // the origins of source and target, as stored
	blamed  string    // the origin because of which the last run crashed, if it did
	wasDue  time.Time // when the job was due, before it was started
	heals   time.Time // the value of orphaned before the job was started

	behind   time.Time // since when the job has not been caught up; zero if it is caught up or has ended
	orphaned time.Time // when its lost node was last heard from; zero if the job has run since
}

// A RunError describes why a run failed.
type RunError struct {
	Time    time.Time `json:"time"`
	Message string    `json:"message"`
	Hint    string    `json:"hint,omitempty"` // what the user can do about it
}

// Version identifies the document of the job. No earlier document of the job had the same version, even if the job
// was only paused or resumed since then, or was deleted and created again.
func (j *Job) Version() string {
	return versionOf(j.Generation, micros(j.Created), j.Document.Paused)
}

func versionOf(generation, created int64, paused bool) string {
	version := strconv.FormatInt(generation, 10) + "-" + strconv.FormatInt(created, 36)
	if paused {
		version += "-paused"
	}
	return version
}

// Shown returns the state as users see it: a job that waits after an error is crashing.
func (j *Job) Shown() State {
	if j.State == Pending && j.Errors > 0 {
		return Crashing
	}
	return j.State
}

// Finished reports whether the job will not run again until it is changed or restarted.
func (j *Job) Finished() bool { return j.State == Completed || j.State == Failed }

// An Event is an entry of a job's history.
type Event struct {
	Time   time.Time `json:"time"`
	Type   EventType `json:"type"`
	Node   string    `json:"node,omitempty"`
	Reason string    `json:"reason,omitempty"`
}

// An EventType is the type of an event in the history of a job. The first four are CouchDB's.
type EventType string

// The types of events.
const (
	EventAdded     EventType = "added"
	EventStarted   EventType = "started"
	EventStopped   EventType = "stopped"
	EventCrashed   EventType = "crashed"
	EventAdopted   EventType = "adopted" // its node was lost
	EventChanged   EventType = "changed"
	EventPaused    EventType = "paused"
	EventResumed   EventType = "resumed"
	EventRestarted EventType = "restarted"
	EventCancelled EventType = "cancelled"
	EventCompleted EventType = "completed"
	EventFailed    EventType = "failed"
)

// An End says how a run ended.
type End int

// The ends of runs.
const (
	Stopped   End = iota // stopped while there was more to do
	CaughtUp             // a job that follows: nothing more to do for now
	Done                 // a job that does not follow: nothing more to do
	Crashed              // ended by a temporary error
	Rejected             // ended by a permanent error
	Duplicate            // ended because something else does the same now
	Found                // a job that does not follow: nothing more to do, and something to report
)

// An Outcome says how a run ended, and what follows from that.
type Outcome struct {
	End    End
	Reason string // an error, or why the run was stopped
	Hint   string // what the user can do about the error
	// Seen is the value that Wanted had before the run last found nothing more to do.
	Seen int64
	// Origin is the error that made the run crash, if a server was the cause.
	Origin *OriginError
	// Stats are the statistics of the job, including this run; nil if they have not changed.
	Stats *Stats
	// Behind is how long there has been more to do, if the run had caught up before that; otherwise
	// 0.
	Behind time.Duration
	// Healthy reports whether the run lasted long enough, or got far enough, for earlier errors not to count any
	// more.
	Healthy bool
}

// start makes a pending job run.
func (j *Job) start(owner string, now time.Time) EventType {
	j.wasDue = j.due()
	j.State, j.Owner, j.Reason, j.blamed = Running, owner, "", ""
	j.Epoch++
	j.Observed = j.Generation
	j.Started = now
	j.heals, j.orphaned = j.orphaned, time.Time{}
	return EventStarted
}

// finish ends the current run.
func (j *Job) finish(o Outcome, delay func(errors int64) time.Duration, now time.Time) (EventType, error) {
	j.Owner, j.Stopped, j.NotBefore, j.Reason = "", now, time.Time{}, o.Reason
	if o.Healthy || o.End == CaughtUp || o.End == Done || o.End == Found {
		j.Errors = 0
	}
	switch o.End { //nolint:exhaustive // the other ends are not errors
	case Crashed, Rejected, Found:
		j.LastError = &RunError{now, o.Reason, o.Hint}
	case CaughtUp:
		j.behind = time.Time{}
	}
	if since := now.Add(-o.Behind); o.Behind > 0 && since.After(j.behind) {
		j.behind = since
	}
	event := EventStopped
	j.State = Pending
	switch o.End {
	case CaughtUp:
		j.Succeeded = now
		j.Seen = max(j.Seen, o.Seen)
		if j.Wanted == j.Seen {
			j.State = Idle
		}
	case Done:
		j.Succeeded = now
		j.State, event = Completed, EventCompleted
	case Crashed:
		event = EventCrashed
		j.Errors++
		j.NotBefore = now.Add(delay(j.Errors))
		if o.Origin != nil {
			j.blamed = o.Origin.Origin
		}
		if j.Transient && !j.Retry {
			j.State, event = Failed, EventFailed // the job is not tried again
		}
	case Duplicate:
		j.NotBefore = now.Add(delay(1))
	case Rejected:
		j.Errors++
		j.State, event = Failed, EventFailed
	case Found:
		j.State, event = Failed, EventFailed
	}
	if (o.End == Done || o.End == Found) && j.Document.Schedule != "" {
		j.State = Pending
		if err := j.schedule(now); err != nil {
			return "", err
		}
	}
	switch {
	case j.Document.Paused && j.State != Completed && j.State != Failed:
		j.State, j.NotBefore = Paused, time.Time{}
	case j.Observed != j.Generation: // the document has changed meanwhile, so earlier outcomes do not count
		j.State, j.NotBefore, j.Errors = Pending, time.Time{}, 0
		return event, j.schedule(now)
	}
	return event, nil
}

// adopt makes the job of a lost node pending; heard is when the node was last heard from, or zero.
func (j *Job) adopt(node string, heard, now time.Time) EventType {
	j.State, j.Owner, j.Stopped, j.orphaned = Pending, "", now, heard
	j.Epoch++ // fences the run
	j.Reason = fmt.Sprintf("node %s was lost", cmp.Or(node, "unknown"))
	if j.Document.Paused {
		j.State = Paused
	}
	return EventAdopted
}

// pause stops the job: at once if it is not running, otherwise when its node has ended the run. It
// returns false if there is nothing to change.
func (j *Job) pause() bool {
	if j.Document.Paused || j.Finished() {
		return false
	}
	j.Document.Paused = true
	if j.State != Running {
		j.State, j.NotBefore, j.Reason = Paused, time.Time{}, ""
	}
	return true
}

// resume is the opposite of pause.
func (j *Job) resume(now time.Time) (bool, error) {
	if !j.Document.Paused {
		return false, nil
	}
	j.Document.Paused = false
	if j.State == Paused {
		j.again()
	}
	return true, j.schedule(now)
}

// restart makes a job due at once, whatever happened before. A current run is not interrupted.
func (j *Job) restart() bool {
	if j.State == Running || j.State == Paused {
		return false
	}
	j.again()
	return true
}

func (j *Job) again() {
	j.State, j.NotBefore, j.Errors, j.Reason, j.orphaned = Pending, time.Time{}, 0, "", time.Time{}
	j.Wanted++
}

// schedule makes a job with a schedule wait for its next time.
func (j *Job) schedule(now time.Time) (err error) {
	if j.Document.Schedule != "" && j.State == Pending {
		j.NotBefore, err = nextRun(j.Document.Schedule, now)
	}
	return err
}

// change gives the job another document.
func (j *Job) change(d Document) {
	j.Document = d
	j.Generation++
	j.LastError = nil
	switch {
	case j.State == Running: // the node ends the run
	case d.Paused:
		j.State, j.NotBefore, j.Reason, j.Errors = Paused, time.Time{}, "", 0
	default:
		j.again()
	}
}

// micros and fromMicros convert times to and from those of the database, where 0 is the zero time.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func fromMicros(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMicro(n).UTC()
}

// columns lists the columns of a job that change after it was created, in the order of values.
const columns = "document, generation, state, paused, epoch, owner, observed, wanted, seen, not_before, errors, reason, started, stopped, succeeded, since, behind, orphaned, failed, failure, hint, events, blamed, transient, source_origin, target_origin, created, retry"

// enter records when the job entered its state, and since when it has not been caught up.
func (j *Job) enter(now time.Time) {
	if j.State != j.stored {
		j.Since, j.stored = now, j.State
	}
	if j.State == Idle || j.Finished() {
		j.behind = time.Time{}
	} else if j.behind.IsZero() {
		j.behind = now
	}
}

// values returns the values to store in the columns from document to hint.
func (j *Job) values() []any {
	var owner *string
	if j.Owner != "" {
		owner = &j.Owner
	}
	var e RunError
	if j.LastError != nil {
		e = *j.LastError
	}
	return []any{
		j.text, j.Generation, j.State, j.Document.Paused, j.Epoch, owner, j.Observed, j.Wanted, j.Seen,
		micros(j.NotBefore), j.Errors, j.Reason, micros(j.Started), micros(j.Stopped), micros(j.Succeeded), j.events, micros(j.Since),
		j.blamed, micros(j.behind), micros(j.orphaned), micros(e.Time), e.Message, e.Hint,
	}
}

func (j *Job) scan(scan func(...any) error) error {
	var owner *string
	var paused bool
	var notBefore, started, stopped, succeeded, since, behind, orphaned, failed, created int64
	var e RunError
	err := scan(&j.text, &j.Generation, &j.State, &paused, &j.Epoch, &owner, &j.Observed, &j.Wanted, &j.Seen,
		&notBefore, &j.Errors, &j.Reason, &started, &stopped, &succeeded, &since, &behind, &orphaned, &failed, &e.Message, &e.Hint, &j.events, &j.blamed, &j.Transient, &j.origins[0], &j.origins[1], &created, &j.Retry)
	if err != nil {
		return err
	}
	if owner != nil {
		j.Owner = *owner
	}
	j.NotBefore, j.Started, j.Stopped, j.Succeeded = fromMicros(notBefore), fromMicros(started), fromMicros(stopped), fromMicros(succeeded)
	j.Since, j.Created = fromMicros(since), fromMicros(created)
	j.behind, j.orphaned = fromMicros(behind), fromMicros(orphaned)
	if e.Time = fromMicros(failed); failed != 0 {
		j.LastError = &e
	}
	if err := json.Unmarshal([]byte(j.text), &j.Document); err != nil {
		return fmt.Errorf("stored document: %w", err)
	}
	j.Document.Paused = paused
	j.stored, j.fence = j.State, j.Epoch
	return nil
}
