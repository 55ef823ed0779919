package couchdb

import (
	"encoding/json"
	"time"

	"github.com/feedctl/feedctl/bridge/couchdb/changes"
)

// follow returns the options of the changes feed.
func (b *Bridge) follow(kind changes.Feed, since json.RawMessage, instance string) changes.Options {
	c := &b.config
	o := changes.Options{Feed: kind, Since: since, Instance: instance, Filter: c.Filter}
	o.AllDocs, o.IncludeDocs = c.Conflicts, !c.Revs && !c.Conflicts
	o.BatchRows, o.BatchBytes = batchRows, batchBytes
	o.Heartbeat, o.Log = heartbeat, c.Log
	if kind == changes.Normal {
		o.SeqInterval = batchRows // one position per batch is enough
		o.PageRows = pageRows
	}
	return o
}

// heartbeat is the interval of the source's heartbeats. After three missing ones the follower
// reconnects.
const heartbeat = 5 * time.Second

// How much of the changes feed is read at a time. With pages, servers that buffer responses
// prepare the next rows while earlier ones are published.
const (
	pageRows   = 2000
	batchRows  = 1000
	batchBytes = 1 << 20
)

// kinds returns the kinds of changes feed to read, one after the other. A normal feed is the
// cheapest for existing changes.
func (b *Bridge) kinds() []changes.Feed {
	switch {
	case !b.config.Follow:
		return []changes.Feed{changes.Normal}
	case b.config.LongPoll:
		return []changes.Feed{changes.Normal, changes.LongPoll}
	}
	return []changes.Feed{changes.Normal, changes.Continuous}
}
