package couchdb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/feedctl/feedctl/bridge"
)

// How many quarantined documents are retried at a time. CouchDB finds up to 100 documents by
// id; for more, or with a filter, it reads the whole changes feed.
const (
	retryDocs     = 100
	retryFiltered = 10000
)

// Retry tries to publish the documents in quarantine, with the options and the filter with
// which they were read; only Config.MaxDocument is from this bridge. Documents that the source
// has replaced or deleted, or that no longer pass the filter, are removed from
// quarantine. Rows without a document id stay, because they cannot be requested.
//
// If the filter depends on the content of documents, the changes are read from their
// beginning, without the documents.
//
// Another bridge may publish to the feed at the same time.
func (b *Bridge) Retry(ctx context.Context) (bridge.RetryReport, error) {
	defer func(configured Config) { b.config = configured }(b.config)
	return b.core.Retry(ctx, func(thing bridge.Quarantined) int {
		var f Filter
		if json.Unmarshal(thing.Filter, &f) == nil && f.Picks() {
			return retryFiltered
		}
		return retryDocs
	}, b.retry)
}

// retry returns a source that reads quarantined documents again.
func (b *Bridge) retry(core *bridge.Run, at bridge.Checkpoint, things []bridge.Quarantined) (bridge.Source, error) {
	b.config.Options, b.config.Filter = Options{}, Filter{}
	if err := errors.Join(decode(things[0].Options, &b.config.Options), decode(things[0].Filter, &b.config.Filter)); err != nil {
		return nil, fmt.Errorf("read quarantine: %w", err)
	}
	s, from, err := b.prepare(core, at)
	if err != nil {
		return nil, err
	}
	if at.Begins() {
		s.state.Conflicts = b.config.Conflicts
	}
	from.since = nil
	s.reader = newReader(b, s, from)
	s.only = map[string]bool{}
	for _, thing := range things {
		s.only[thing.ID] = true
	}
	return s, nil
}

func decode(data json.RawMessage, v any) error {
	if data == nil {
		return nil
	}
	return json.Unmarshal(data, v)
}
