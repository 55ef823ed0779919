package couchdb

import (
	"encoding/json"
	"time"

	"github.com/feedctl/feedctl/bridge/couchdb/changes"
)

// follow returns the options of the changes feed.
func (b *Bridge) follow(kind changes.Feed, since json.RawMessage, instance string) changes.Options {
	c := &b.config
	o := c.Filter.options()
	o.Feed, o.Since, o.Instance = kind, since, instance
	o.AllDocs, o.IncludeDocs = c.Conflicts, !c.Revs && !c.Conflicts
	o.BatchRows, o.BatchBytes = batchRows, batchBytes
	o.Heartbeat, o.Log = heartbeat, c.Log
	if kind == changes.Normal {
		o.SeqInterval = batchRows // a place with each batch is all that is needed
		o.PageRows = pageRows
	}
	return o
}

// heartbeat is how often a source should show that it is there. One that misses three is not.
const heartbeat = 5 * time.Second

// How much of the changes feed is read at a time. Pages have some servers gather the next
// rows while those before are published.
const (
	pageRows   = 2000
	batchRows  = 1000
	batchBytes = 1 << 20
)

// kinds returns the kinds of changes feed to read, one after the other: the one that
// ends is the cheapest for all there is.
func (b *Bridge) kinds() []changes.Feed {
	switch {
	case !b.config.Follow:
		return []changes.Feed{changes.Normal}
	case b.config.LongPoll:
		return []changes.Feed{changes.Normal, changes.LongPoll}
	}
	return []changes.Feed{changes.Normal, changes.Continuous}
}
