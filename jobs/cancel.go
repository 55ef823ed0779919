package jobs

import (
	"context"
	"time"

	"github.com/feedctl/feedctl/internal/jobdb"
)

// Cancel ends jobs that do not follow, although they are not done. A job that is running is stopped. A
// cancelled job is in the state failed until it is changed or restarted; if it has a schedule, it waits for the next
// time.
//
// Unlike CouchDB's cancel (CouchDB manual, "Canceling replication"), Cancel keeps the job's document,
// its history, its position, and what it has written.
//
// Cancel returns how many jobs it cancelled. The error matches [ErrFollows] if a job follows.
func (s *Scheduler) Cancel(ctx context.Context, ids ...string) (int, error) {
	return s.each(ctx, "cancel", EventCancelled, ids, func(tx jobdb.Tx, j *Job, now time.Time) (bool, error) {
		if j.State == Running {
			if err := s.charge(ctx, tx, j, now); err != nil {
				return false, err
			}
		}
		return j.cancel(now)
	})
}

// cancel ends a job. It returns false if there is nothing to end.
func (j *Job) cancel(now time.Time) (bool, error) {
	scheduled := j.Document.Schedule != ""
	waits := j.State == Paused || j.State == Pending && j.Errors == 0 && j.NotBefore.After(now)
	switch {
	case j.Document.Follow:
		return false, ErrFollows
	case j.Finished(), scheduled && waits:
		return false, nil
	case j.State == Running:
		j.Owner, j.Stopped = "", now
		j.Epoch++ // fences the run: its node ends it as if the job had been deleted
	}
	j.State, j.Reason, j.Errors, j.NotBefore = Failed, "cancelled", 0, time.Time{}
	switch {
	case scheduled && j.Document.Paused:
		j.State = Paused
	case scheduled:
		j.State = Pending
	default:
		j.Document.Paused = false // so that it is not paused when it is restarted
	}
	return true, j.schedule(now)
}
