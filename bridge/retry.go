package bridge

import (
	"context"
	"fmt"
)

// A RetryReport is what became of a quarantine.
type RetryReport struct {
	Published int64 `json:"published"` // entities that are in the feed now
	Removed   int64 `json:"removed"`   // things that were taken out: published, or not the source's any more
	Left      int64 `json:"left"`      // things that are still there
}

// Retry tries to publish again what is in the quarantine. What is not rejected again is taken out.
// Rows without a document id stay: they cannot be asked for.
//
// The things are tried in batches that have the same options and filter, of at most as many as most
// returns for any of them. Source returns what reads them for a run. They are not read in the
// source's order, so the checkpoint, which is passed to source, keeps its place.
//
// Another bridge may be publishing to the feed at the same time.
func (b *Bridge) Retry(ctx context.Context, most func(Quarantined) int, source func(*Run, Checkpoint, []Quarantined) (Source, error)) (report RetryReport, err error) {
	before := b.Meter.Now().Published
	defer func() { report.Published = b.Meter.Now().Published - before }()
	retry := func(things []Quarantined) error {
		var rejected map[string]bool
		err := b.Repeat(ctx, func() error {
			at, err := b.CatchUp(ctx)
			if err != nil {
				return err
			}
			if at.Begins() {
				at.Session = NewID()
			}
			r := b.newRun(at)
			r.aside, r.rejected = true, map[string]bool{}
			rejected = r.rejected
			s, err := source(r, at, things)
			if err != nil {
				return err
			}
			return r.Do(ctx, s)
		})
		if err != nil {
			return fmt.Errorf("retry quarantine of feed %q: %w", b.config.Feed, err)
		}
		for _, thing := range things {
			if rejected[thing.Name] {
				report.Left++
				continue
			}
			if err := b.release(ctx, thing.Name); err != nil {
				return err
			}
			report.Removed++
		}
		return nil
	}
	batches := map[string][]Quarantined{} // by what they are read with
	for thing, err := range List(ctx, b.config.Store, b.config.Feed) {
		if err != nil {
			return report, err
		}
		if thing.ID == "" {
			report.Left++
			continue
		}
		how := string(thing.Options) + string(thing.Filter)
		thing.Row = nil
		batch := append(batches[how], thing)
		if len(batch) == most(thing) {
			if err := retry(batch); err != nil {
				return report, err
			}
			batch = batch[:0]
		}
		batches[how] = batch
	}
	for _, batch := range batches {
		if len(batch) > 0 {
			if err := retry(batch); err != nil {
				return report, err
			}
		}
	}
	return report, nil
}
