package couchdb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/feedctl/feedctl/producer"
)

// A RetryReport is what became of a quarantine.
type RetryReport struct {
	Published int64 `json:"published"` // entities that are in the feed now
	Removed   int64 `json:"removed"`   // things that were taken out: published, or not the source's any more
	Left      int64 `json:"left"`      // things that are still there
}

// retryDocs is how many documents are asked for at a time: CouchDB looks for up to 100
// by id, and else through the whole changes feed.
const retryDocs = 100

// Retry tries to publish again what is in the quarantine, with the options that the feed
// was filled with; only Config.MaxDocument is that of this bridge. What the source has
// replaced in the meantime, or has not got any more, is taken out. Rows without a
// document id stay: they cannot be asked for.
//
// Another bridge may be publishing to the feed at the same time.
func (b *Bridge) Retry(ctx context.Context) (report RetryReport, err error) {
	before := b.meter.now().Published
	var things []Quarantined
	for thing, err := range List(ctx, b.config.Store, b.config.Feed) {
		if err != nil {
			return report, err
		}
		if thing.ID == "" {
			report.Left++
			continue
		}
		thing.Row = nil
		if things = append(things, thing); len(things) == retryDocs {
			if err := b.retryThings(ctx, things, &report); err != nil {
				return report, err
			}
			things = things[:0]
		}
	}
	if len(things) > 0 {
		err = b.retryThings(ctx, things, &report)
	}
	report.Published = b.meter.now().Published - before
	return report, err
}

func (b *Bridge) retryThings(ctx context.Context, things []Quarantined, report *RetryReport) error {
	rejected, err := b.retryOnce(ctx, things)
	for errors.Is(err, producer.ErrCheckpoint) && ctx.Err() == nil {
		if err := b.pause(ctx, jitter(time.Second)); err != nil {
			return err
		}
		rejected, err = b.retryOnce(ctx, things)
	}
	if err != nil {
		return fmt.Errorf("retry quarantine of feed %q: %w", b.config.Feed, err)
	}
	for _, thing := range things {
		if rejected[thing.Name] {
			report.Left++
			continue
		}
		if err := b.quarantine.remove(ctx, thing.Name); err != nil {
			return err
		}
		report.Removed++
	}
	return nil
}

// retryOnce reads what the source has of some documents now, and publishes what is not in
// the feed. It returns the names of what was put into quarantine again.
func (b *Bridge) retryOnce(ctx context.Context, things []Quarantined) (rejected map[string]bool, err error) {
	at, encoded, _, err := b.start(ctx)
	if err != nil {
		return nil, err
	}
	if at.begins() {
		at.Source, at.Selection, at.Options = b.config.Source.URL(), b.selection, b.config.Options
		at.Session = newSession()
	}
	b.config.Options = at.Options
	s := b.prepare(at, encoded, nil)
	s.rejected = map[string]bool{}
	ids := map[string]bool{}
	for _, thing := range things {
		if !ids[thing.ID] {
			s.reader.only = append(s.reader.only, thing.ID)
		}
		ids[thing.ID] = true
	}
	return s.rejected, s.run(ctx)
}
