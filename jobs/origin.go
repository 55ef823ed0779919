package jobs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"time"

	"github.com/feedctl/feedctl/internal/jobdb"
	"github.com/feedctl/feedctl/internal/origins"
)

// An OriginError is an error of a server rather than of the job that uses it: the server cannot be reached, does not work, or
// has too many requests. It says nothing about the job.
type OriginError struct {
	Origin string // as in [Identity]
	Err    error
	// RetryAfter is how long the server asks its clients to wait; 0 if it does not. More than
	// 5 minutes count as 5 minutes.
	RetryAfter time.Duration
	// Throttled reports whether the server works but has too many requests. Such a server does not count as down.
	Throttled bool
}

func (e *OriginError) Error() string { return fmt.Sprintf("server %s: %v", e.Origin, e.Err) }

// Unwrap returns the underlying error.
func (e *OriginError) Unwrap() error { return e.Err }

// The rules for origins.
const (
	failuresToOpen = 3           // failed runs, with no success in between,
	failuresWithin = time.Minute // within this time, mean that the origin is down
	firstProbe     = 5 * time.Second
	lastProbe      = time.Minute
)

// originFailed records that a run failed because of an origin. It returns the time until which no run is to use the origin,
// or the zero time if runs may use it.
func originFailed(ctx context.Context, tx jobdb.Tx, e *OriginError, t time.Time) (time.Time, error) {
	const insert = "INSERT INTO @origin (origin, failures, since, open, probe, blocked, reason) VALUES ($1, 0, $2, false, 0, 0, '') ON CONFLICT DO NOTHING"
	if _, err := tx.Exec(ctx, insert, e.Origin, micros(t)); err != nil {
		return time.Time{}, err
	}
	var failures, since, probe, blocked, asked int64
	var open bool
	const read = "SELECT failures, since, open, probe, blocked, asked FROM @origin WHERE origin = $1 @lock"
	if _, err := jobdb.One(ctx, tx, read, []any{e.Origin}, &failures, &since, &open, &probe, &blocked, &asked); err != nil {
		return time.Time{}, err
	}
	if !open && t.Sub(fromMicros(since)) > failuresWithin {
		failures, since = 0, micros(t)
	}
	if !e.Throttled {
		failures++
	}
	until := fromMicros(blocked)
	waits := until.After(t)
	switch {
	case !open && failures >= failuresToOpen:
		open, probe = true, firstProbe.Microseconds()
	case open && !waits: // the run was a probe, or had begun before the origin was known to be down
		probe = nextProbe(probe)
	}
	if open && !waits {
		until = fromMicros(micros(t) + probe)
	}
	if end := t.Add(min(e.RetryAfter, origins.MaxRetryAfter)); e.RetryAfter > 0 && end.After(until) {
		until, asked = end, micros(end)
	}
	const update = "UPDATE @origin SET failures = $2, since = $3, open = $4, probe = $5, blocked = $6, asked = $7, reason = $8 WHERE origin = $1"
	_, err := tx.Exec(ctx, update, e.Origin, failures, since, open, probe, micros(until), asked, clean(e.Err.Error()))
	if !until.After(t) {
		until = time.Time{}
	}
	return until, err
}

// nextProbe returns the time until the next probe, in microseconds, given the time that preceded the last probe.
func nextProbe(last int64) int64 {
	return max(firstProbe.Microseconds(), min(2*last, lastProbe.Microseconds()))
}

// OriginUp records that a run has used an origin successfully. If the origin was down, the jobs that crashed because of it
// are due again, spread over a few seconds. Other jobs wait as their own errors require.
func (s *Scheduler) OriginUp(ctx context.Context, origin string) error {
	err := s.db.Begin(ctx, func(tx jobdb.Tx) error {
		var open, asked bool
		found, err := jobdb.One(ctx, tx, "SELECT open, asked > @now FROM @origin WHERE origin = $1 @lock", []any{origin}, &open, &asked)
		if err != nil || !found {
			return err
		}
		change := "DELETE FROM @origin WHERE origin = $1"
		if asked {
			change = "UPDATE @origin SET failures = 0, open = false, blocked = asked WHERE origin = $1"
		}
		if _, err := tx.Exec(ctx, change, origin); err != nil || !open {
			return err
		}
		ids, err := waitingFor(ctx, tx, origin)
		if err != nil {
			return err
		}
		t, err := now(ctx, tx)
		for _, id := range ids {
			due := micros(t) + rand.Int64N(s.settings().StartupJitter.Microseconds()+1)
			if _, err := tx.Exec(ctx, "UPDATE @job SET not_before = $2, errors = 0, reason = '' WHERE id = $1", id, due); err != nil {
				return err
			}
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("record that %s is up: %w", origin, err)
	}
	return nil
}

// waitingFor returns the jobs that wait because of an error of the given origin.
func waitingFor(ctx context.Context, tx jobdb.Tx, origin string) (ids []string, err error) {
	const sql = "SELECT id FROM @job WHERE state = 'pending' AND errors > 0 AND blamed = $1 AND (source_origin = $1 OR target_origin = $1) ORDER BY id @lock"
	err = jobdb.Each(ctx, tx, sql, []any{origin}, func(scan func(...any) error) error {
		var id string
		err := scan(&id)
		ids = append(ids, id)
		return err
	})
	return ids, err
}

// available is the condition for a job that need not wait for another job, and none of whose origins is blocked.
const available = "source_origin NOT IN (" + blockedOrigins + ") AND target_origin NOT IN (" + blockedOrigins + ") AND " + alone

// blockedOrigins selects the origins with which no run is to start. It does not depend on the job, so a statement evaluates
// it once.
const blockedOrigins = "SELECT origin FROM @origin WHERE open OR blocked > @now"

// alone is the condition for a job that need not wait for a transient job that does the same (CouchDB replicator RFC,
// "Transient Job Behavior").
const alone = `(transient OR NOT EXISTS (SELECT 1 FROM (SELECT work AS same_work FROM @job WHERE transient AND state NOT IN ('completed', 'failed')) AS once WHERE same_work = work)
	AND NOT EXISTS (SELECT 1 FROM (SELECT target AS same_target FROM @job WHERE transient AND target <> '' AND state NOT IN ('completed', 'failed')) AS once WHERE same_target = target))`

// probes returns a job for each origin that is down and due for a probe, up to the given number. Jobs that wait for another
// reason, such as their schedule or an error of their own, do not probe.
func (s *Scheduler) probes(ctx context.Context, tx jobdb.Tx, n Node, most int, t time.Time) (found []*Job, err error) {
	type origin struct {
		name  string
		probe int64
	}
	var down []origin
	const sql = "SELECT origin, probe FROM @origin WHERE open AND blocked <= @now ORDER BY blocked @skip" // without a limit, since some origins may have no job for a probe
	err = jobdb.Each(ctx, tx, sql, nil, func(scan func(...any) error) error {
		var o origin
		err := scan(&o.name, &o.probe)
		down = append(down, o)
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, o := range down {
		if len(found) == most {
			break
		}
		one, err := load(ctx, tx, `WHERE state = 'pending' AND (source_origin = $3 OR target_origin = $3) AND (blamed = $3 OR not_before <= $4) AND `+placed(1)+`
			AND NOT EXISTS (SELECT 1 FROM @origin AS o WHERE o.blocked > $4 AND o.origin IN (source_origin, target_origin)) AND `+alone+`
			ORDER BY started, rank, id LIMIT 1 @skip`, n.Name, n.text(), o.name, micros(t)) // with @now, a slow transaction could find a job twice
		if err != nil {
			return nil, err
		}
		if len(one) == 0 {
			continue
		}
		found = append(found, one...)
		next := nextProbe(o.probe)
		if _, err := tx.Exec(ctx, "UPDATE @origin SET probe = $2, blocked = $3 WHERE origin = $1", o.name, next, micros(t)+next); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// blamed returns the error of the origin that made a run fail, or nil if it failed for another reason.
func (s *Session) blamed(err error) *OriginError {
	if e, ok := errors.AsType[*OriginError](err); ok {
		return e
	}
	if _, file := errors.AsType[*fs.PathError](err); file { // an error of the node, such as a full disk
		return nil
	}
	return (*OriginError)(s.client.Failure())
}
