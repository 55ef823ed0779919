package jobs

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/feedctl/feedctl/internal/jobdb"
)

// Stats are the statistics of a run ([Session.Report]), or of a job over all of its runs.
type Stats struct {
	Entities int64 `json:"entities"` // published or applied
	Bytes    int64 `json:"bytes"`
	Repeated int64 `json:"repeated"` // entities that the target already had
	Rejected int64 `json:"rejected"` // entities that were set aside
	// Pending is how many entities are still to come; -1 if that is unknown.
	Pending int64 `json:"pending"`
	// Lag is the age of the oldest of the pending entities; -1 if that is unknown.
	Lag time.Duration `json:"-"` // as JSON, lagSeconds
	// Position is the position of the run, and SourcePosition the newest known position of its source. Only the kind
	// knows what they mean.
	Position       string `json:"position,omitempty"`
	SourcePosition string `json:"sourcePosition,omitempty"`
}

// plus returns the statistics of a job after a run; s holds the statistics before the run.
func (s Stats) plus(run Stats) Stats {
	run.Entities += s.Entities
	run.Bytes += s.Bytes
	run.Repeated += s.Repeated
	run.Rejected += s.Rejected
	run.Position = cmp.Or(run.Position, s.Position)
	run.SourcePosition = cmp.Or(run.SourcePosition, s.SourcePosition)
	return run
}

// A total holds the statistics of a job, including those of its current run.
type total struct {
	id    runID
	stats Stats
}

const statsColumns = "entities, bytes, repeated, rejected, pending, lag, position, source_position"

// loadStats returns the statistics of a job; nil if there are none.
func loadStats(ctx context.Context, tx jobdb.Tx, job string) (*Stats, error) {
	var s Stats
	found, err := jobdb.One(ctx, tx, "SELECT "+statsColumns+" FROM @stats WHERE job = $1", []any{job},
		&s.Entities, &s.Bytes, &s.Repeated, &s.Rejected, &s.Pending, &s.Lag, &s.Position, &s.SourcePosition)
	if err != nil || !found {
		return nil, err
	}
	return &s, nil
}

// statsAtOnce is how many rows one statement writes: SQLite allows 32,766 parameters.
const statsAtOnce = 500

// saveStats writes statistics, except those of runs that are no longer the current run of their job. It locks the
// jobs, since they may be deleted at the same time, with their statistics.
func saveStats(ctx context.Context, tx jobdb.Tx, totals []total) error {
	const columns = 10
	for len(totals) > 0 {
		some := totals[:min(len(totals), statsAtOnce)]
		totals = totals[len(some):]
		rows, args := make([]string, len(some)), make([]any, 0, columns*len(some))
		for n, x := range some {
			rows[n] = "(" + jobdb.List(len(args)+1, columns) + ")"
			s := x.stats
			args = append(args, x.id.job, x.id.epoch, s.Entities, s.Bytes, s.Repeated, s.Rejected, s.Pending, int64(s.Lag), clean(s.Position), clean(s.SourcePosition))
		}
		rows[0] = typed
		_, err := tx.Exec(ctx, `WITH run (job, epoch, `+statsColumns+`) AS (VALUES `+strings.Join(rows, ", ")+`)
			INSERT INTO @stats (job, updated, `+statsColumns+`)
			SELECT run.job, @now, `+statsColumns+` FROM run JOIN @job AS j ON j.id = run.job AND j.epoch = run.epoch WHERE true ORDER BY j.id @lock
			ON CONFLICT (job) DO UPDATE SET updated = excluded.updated, entities = excluded.entities, bytes = excluded.bytes,
				repeated = excluded.repeated, rejected = excluded.rejected, pending = excluded.pending, lag = excluded.lag,
				position = excluded.position, source_position = excluded.source_position`, args...)
		if err != nil {
			return err
		}
	}
	return nil
}

// typed is the first row of the statement in saveStats. It gives the columns their types.
const typed = `(CAST($1 AS text), CAST($2 AS bigint), CAST($3 AS bigint), CAST($4 AS bigint), CAST($5 AS bigint), CAST($6 AS bigint),
	CAST($7 AS bigint), CAST($8 AS bigint), CAST($9 AS text), CAST($10 AS text))`

// report writes the statistics of runs.
func (s *Scheduler) report(ctx context.Context, totals []total) error {
	if len(totals) == 0 {
		return nil
	}
	if err := s.db.Begin(ctx, func(tx jobdb.Tx) error { return saveStats(ctx, tx, totals) }); err != nil {
		return fmt.Errorf("write statistics of %d runs: %w", len(totals), err)
	}
	return nil
}

// Stats returns the statistics of a job over all of its runs; nil if there are none.
func (s *Scheduler) Stats(ctx context.Context, id string) (found *Stats, err error) {
	err = s.db.View(ctx, func(tx jobdb.Tx) (err error) {
		found, err = loadStats(ctx, tx, id)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read statistics of job %s: %w", id, err)
	}
	return found, nil
}
