package couchdb

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/feedctl/feedctl/internal/backoff"
)

// A RetryReport is what became of a quarantine.
type RetryReport struct {
	Published int64 `json:"published"` // entities that are in the feed now
	Removed   int64 `json:"removed"`   // things that were taken out: published, or not the source's any more
	Left      int64 `json:"left"`      // things that are still there
}

// How many things are tried again at a time. CouchDB looks for up to 100 documents by id, and
// else through the whole changes feed; through that with a filter in any case.
const (
	retryDocs     = 100
	retryFiltered = 10000
)

// Retry tries to publish again what is in the quarantine, with the options and the filter of
// the bridge that found it; only Config.MaxDocument is that of this one. What the source has
// replaced in the meantime, has not got any more, or does not let through its filter now, is
// taken out. Rows without a document id stay: they cannot be asked for.
//
// With a filter that looks into documents, the changes are read from their beginning, without
// the documents.
//
// Another bridge may be publishing to the feed at the same time.
func (b *Bridge) Retry(ctx context.Context) (report RetryReport, err error) {
	before := b.meter.now().Published
	defer func() { report.Published = b.meter.now().Published - before }()
	batches := map[string][]Quarantined{} // by what they are read with
	for thing, err := range List(ctx, b.config.Store, b.config.Feed) {
		if err != nil {
			return report, err
		}
		if thing.ID == "" {
			report.Left++
			continue
		}
		how, err := json.Marshal([]any{thing.Options, thing.Filter})
		if err != nil {
			return report, fmt.Errorf("encode: %w", err)
		}
		most := retryDocs
		if thing.Filter.picks() {
			most = retryFiltered
		}
		thing.Row = nil
		batch := append(batches[string(how)], thing)
		if len(batch) == most {
			if err := b.retryThings(ctx, batch, &report); err != nil {
				return report, err
			}
			batch = batch[:0]
		}
		batches[string(how)] = batch
	}
	for _, batch := range batches {
		if len(batch) == 0 {
			continue
		}
		if err := b.retryThings(ctx, batch, &report); err != nil {
			return report, err
		}
	}
	return report, nil
}

// retryThings tries things again that are read in the same way.
func (b *Bridge) retryThings(ctx context.Context, things []Quarantined, report *RetryReport) error {
	defer func(configured Config) { b.config = configured }(b.config)
	b.config.Options, b.config.Filter = things[0].Options, things[0].Filter
	rejected, err := b.retryOnce(ctx, things)
	for overtaken(err) && ctx.Err() == nil {
		if err := b.pause(ctx, backoff.Jitter(time.Second)); err != nil {
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
	at, encoded, err := b.catchUp(ctx)
	if err != nil {
		return nil, err
	}
	from := at.origin()
	if at.begins() {
		at.Session, at.Conflicts = newID(), b.config.Conflicts
	}
	from.since = nil
	s := b.prepare(at, encoded, from)
	s.rejected = map[string]bool{}
	s.reader.only = map[string]bool{}
	for _, thing := range things {
		s.reader.only[thing.ID] = true
	}
	return s.rejected, s.run(ctx)
}
