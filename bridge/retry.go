package bridge

import (
	"context"
	"fmt"
)

// A RetryReport is the result of retrying a quarantine.
type RetryReport struct {
	Published int64 `json:"published"` // entities published
	Removed   int64 `json:"removed"`   // documents removed from quarantine: published, or no longer in the source
	Left      int64 `json:"left"`      // documents and rows still in quarantine
}

// Retry tries to publish the documents in quarantine. Those that are not rejected again are removed
// from the quarantine. Rows without a document id stay, because they cannot be requested.
//
// Documents with the same options and filter are retried in batches; most returns the maximum
// number of documents in a batch that contains the given one. source returns a source that reads a
// batch for a run. Because batches are not in the order of the source, the position in the
// checkpoint does not change.
//
// Another bridge may publish to the feed at the same time.
func (b *Bridge) Retry(ctx context.Context, most func(Quarantined) int, source func(*Run, Checkpoint, []Quarantined) (Source, error)) (report RetryReport, err error) {
	before := b.Meter.Now().Published
	defer func() { report.Published = b.Meter.Now().Published - before }()
	retry := func(things []Quarantined) error {
		var rejected map[string]bool
		err := b.Repeat(ctx, func() error {
			at, err := b.catchUp(ctx)
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
	batches := map[string][]Quarantined{} // by options and filter
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
