package feed

import (
	"io"
	"time"
)

// A Field is a header field that the model has no member for.
type Field struct {
	Name, Value string
}

// An Entity is one part of a page.
type Entity struct {
	// ContentID names the event, uniquely within the feed; the value of the
	// Content-ID header as it is written, with its angle brackets if it has
	// any. Empty in snapshots; a producer gives one to an entity without.
	ContentID string
	// Operation is empty in snapshots.
	Operation Operation
	// LastModified is set by the producer of a feed. On the wire it has whole
	// seconds.
	LastModified time.Time
	ContentType  string
	// ContentLocation names the thing that the entity is about: the value of
	// the Content-Location header, a percent-encoded URI reference. May be
	// empty. See [Entity.Key] and [EncodeKey].
	ContentLocation string
	// Header has all other fields, in order.
	Header []Field
	// Body is the whole body, if Stream is nil.
	Body []byte
	// Stream gives the body of an entity that is too large to hold. It can be
	// read once, and before the next entity.
	Stream io.Reader
	// Size is the size of Stream in bytes, or -1 if it is not known before it
	// is read. It means nothing if Stream is nil.
	Size int64
}

// A Position is a place in a feed: after the entity with this Content-ID. The
// zero Position is before the first entity.
type Position struct {
	// LastModified of the entity, in whole seconds as on the wire.
	LastModified time.Time `json:"lastModified,omitzero"`
	// ContentID may be empty: then the position is a time, and entities of
	// that very second may be seen again.
	ContentID string `json:"contentId,omitempty"`
	// Page is the URL of the page that the entity was on: where to look first.
	Page string `json:"page,omitempty"`
	// Prev is the digest of the page before that one, in hex: see [Chain]. It is
	// empty if the server did not say, or the position was taken by a program
	// that did not ask.
	Prev string `json:"prev,omitempty"`
	// Feed is the URL of the feed's entry point when the position was taken. At
	// another one, Page and Prev mean nothing, and the Content-ID is looked for
	// in the whole feed: it may be the same feed at another place.
	Feed string `json:"feed,omitempty"`
	// Committed is when a consumer committed it, by its clock, in milliseconds; zero if it
	// did not, or was of an earlier version.
	Committed time.Time `json:"committed,omitzero"`
	// Snapshot is set while a snapshot is being read.
	Snapshot *SnapshotPosition `json:"snapshot,omitempty"`
}

// A SnapshotPosition is a place in a snapshot: the first Entities entities of
// page Page (both from 0) and all pages before it have been read.
type SnapshotPosition struct {
	Index    string `json:"index"` // URL of the index
	Page     int    `json:"page"`
	Entities int    `json:"entities"`
}

// IsZero reports whether p is the beginning of the feed.
func (p Position) IsZero() bool { return p == Position{} }
