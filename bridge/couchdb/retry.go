package couchdb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/feedctl/feedctl/bridge"
)

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
func (b *Bridge) Retry(ctx context.Context) (bridge.RetryReport, error) {
	defer func(configured Config) { b.config = configured }(b.config)
	return b.core.Retry(ctx, func(thing bridge.Quarantined) int {
		var f Filter
		if json.Unmarshal(thing.Filter, &f) == nil && f.picks() {
			return retryFiltered
		}
		return retryDocs
	}, b.retry)
}

// retry returns what reads things again.
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
