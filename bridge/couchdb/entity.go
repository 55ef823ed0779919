package couchdb

import (
	"github.com/feedctl/feedctl/bridge"
	"github.com/feedctl/feedctl/feed"
)

const mediaJSON = "application/json"

// jsonEntity returns the entity of a document whose text is in memory.
func jsonEntity(d document, keepAttachments bool) *feed.Entity {
	op := feed.Put
	if d.deleted {
		op = feed.Delete
	}
	e := bridge.Version{ID: d.id, Rev: d.rev}.Entity(op, mediaJSON)
	switch {
	case d.deleted && d.bare && !d.history:
		// A tombstone without other members has no body.
	case keepAttachments:
		e.Body = d.text
	default:
		e.Body = d.withoutAttachments()
	}
	return e
}
