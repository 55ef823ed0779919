// Package jobs schedules bridges, consumers, outbox runners and other jobs: thousands of them
// on a few nodes.
//
// A [Document] describes a job. The database holds the documents and the state of each job;
// it alone decides which jobs run, and where. A job that follows its source and has
// caught up is only a row until a watcher reports that there may be more to do.
//
// The states and their transitions are those of CouchDB's replication scheduler, with two
// more, idle and paused; see docs/jobs.md.
package jobs

import (
	"errors"

	"github.com/feedctl/feedctl/internal/jobdb"
)

// A State is the state of a job.
type State string

// The states. A job that is pending after an error is shown as crashing; see [Job.Shown].
const (
	Pending   State = "pending"   // runs as soon as it is due and there is room
	Running   State = "running"   // runs on a node
	Idle      State = "idle"      // has caught up and waits for more, without using any resources
	Paused    State = "paused"    // paused by a user
	Completed State = "completed" // has done everything it was to do
	Failed    State = "failed"    // cannot run until it is changed or restarted
	Crashing  State = "crashing"  // pending, after an error
)

// Unavailable reports whether an error means that the database cannot be used for now.
func Unavailable(err error) bool { return jobdb.Passes(err) }

// Errors that callers may match.
var (
	// ErrInvalid: documents are invalid. None of the documents applied together is stored.
	ErrInvalid = errors.New("invalid jobs")
	// ErrNoJob: there is no job with that name.
	ErrNoJob = errors.New("no such job")
	// ErrConflict: a job does not have the version that was to be changed.
	ErrConflict = errors.New("job was changed in the meantime")
	// ErrFenced: the job has since been given to another run, or was paused, changed or deleted.
	ErrFenced = errors.New("run is not the current run of its job")
	// ErrExpired: the node was silent for longer than its lease. Its jobs may run elsewhere.
	ErrExpired = errors.New("lease of the node has expired")
	// ErrNamesake: another node with the same name has joined before, and is alive.
	ErrNamesake = errors.New("another node of this name is alive")
	// ErrRejected: the job cannot succeed until its document or its data is changed.
	ErrRejected = errors.New("job cannot run as it is")
	// ErrDuplicate: something else does what the job is to do, such as a run on a node that seemed
	// to be lost. The job is tried again later; this is not an error of the job.
	ErrDuplicate = errors.New("something else does the same")
	// ErrTaken: a job that has ended cannot run again, since another one does the same now.
	ErrTaken = errors.New("another job does the same or writes to the same target")
	// ErrFindings: the job has done what it was to do, and has found something to report, as a
	// check of a feed may. It does not run again before its next time.
	ErrFindings = errors.New("the check found problems")
	// ErrFollows: the job follows its source, so it cannot be ended early.
	ErrFollows = errors.New("job follows its source")
	// ErrURL: a URL does not name a database.
	ErrURL = jobdb.ErrURL
	// ErrNone: the database does not exist, or has no tables of the scheduler.
	ErrNone = jobdb.ErrNone
	// ErrOld: the tables of the scheduler are those of an older program; [Open] migrates them.
	ErrOld = jobdb.ErrOld
	// ErrVersion: a newer program has migrated the tables of the scheduler.
	ErrVersion = jobdb.ErrVersion
	// ErrReserved: the database is an SQLite file that another node uses.
	ErrReserved = jobdb.ErrReserved
)
