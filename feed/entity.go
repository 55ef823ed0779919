package feed

import (
	"io"
	"time"
)

// A Field is a header field for which [Entity] has no field of its own.
type Field struct {
	Name, Value string
}

// An Entity is one part of a page.
type Entity struct {
	// ContentID identifies the entity uniquely within its feed. It is the unchanged value of the Content-ID
	// header, including any angle brackets. It is empty in snapshots. A producer assigns one to an entity
	// that has none.
	ContentID string
	// Operation is empty in snapshots.
	Operation Operation
	// LastModified is set by the producer of a feed. On the wire it has whole
	// seconds.
	LastModified time.Time
	// ContentType is the media type of the body. A DELETE may be published without one, and then has the
	// media type "text/plain; charset=us-ascii" when it is read.
	ContentType string
	// ContentLocation is the key of the entity, percent-encoded: the value of
	// the Content-Location header, a URI reference. It may be empty. See
	// [Entity.Key] and [EncodeKey].
	ContentLocation string
	// Header holds all other fields, in order.
	Header []Field
	// Body is the whole body, if Stream is nil.
	Body []byte
	// Stream reads the body of an entity that is too large to hold in memory. It
	// can be read once, before the next entity is read.
	Stream io.Reader
	// Size is the size of Stream in bytes, or -1 if unknown. It has no meaning
	// if Stream is nil.
	Size int64
}

// A Position is a place in a feed, just after the entity with the given Content-ID. The zero Position is
// before the first entity.
type Position struct {
	// LastModified is the time of the entity, in whole seconds as on the wire.
	LastModified time.Time `json:"lastModified,omitzero"`
	// ContentID may be empty. In this case, the position is just a time, and entities of that second may be
	// read again.
	ContentID string `json:"contentId,omitempty"`
	// Page is the URL of the page that the entity was on. Consumers look for the entity there first.
	Page string `json:"page,omitempty"`
	// Prev is the digest of the page before Page, in hex; see [Chain]. It is empty if the server did not send
	// one or the position was written by an earlier version.
	Prev string `json:"prev,omitempty"`
	// Feed is the URL of the feed's entry point when the position was taken. For a feed at any other URL,
	// Page and Prev have no meaning, and the whole feed is searched for the Content-ID, since the feed may
	// have moved.
	Feed string `json:"feed,omitempty"`
	// Identity and Epoch are [Identity.ID] and [Epoch.ID] of the feed when the position was taken.
	// Identity is empty if the feed had none or its identity is not known. Epoch is empty in the first epoch.
	Identity string `json:"identity,omitempty"`
	Epoch    string `json:"epoch,omitempty"`
	// Committed is when a consumer committed the position, by its clock, in whole
	// milliseconds. It is zero if no consumer did, or an earlier version wrote it.
	Committed time.Time `json:"committed,omitzero"`
	// Damaged is the URL of the page after the position if that page was found to be damaged after some of
	// its entities had been committed. A consumer delivers nothing more of the page until it has read the
	// whole page without an error. Damaged is empty otherwise.
	Damaged string `json:"damaged,omitempty"`
	// Restore is the time (RFC 3339) or Content-ID to which a sink is being restored, or was restored. Only a
	// restore to the same point continues from the position. Restore is empty otherwise.
	Restore string `json:"restore,omitempty"`
	// Snapshot is set while a snapshot is being read.
	Snapshot *SnapshotPosition `json:"snapshot,omitempty"`
	// Tail is set while a feed is being consumed newest first: the entities between Tail
	// and this position have been applied, those before Tail have not.
	Tail *TailPosition `json:"tail,omitempty"`
}

// A TailPosition is a place in a feed that is being consumed newest first. It is just before the entity with
// the given Content-ID, which is the oldest one that has been applied.
type TailPosition struct {
	LastModified time.Time `json:"lastModified,omitzero"` // time of the entity
	// ContentID is empty once the feed has been read back to the snapshot.
	ContentID string `json:"contentId,omitempty"`
	Page      string `json:"page,omitempty"` // URL of the page with the entity
	Prev      string `json:"prev,omitempty"` // digest of the page before Page; see [Chain]
	// Snapshot is the place in the snapshot back to which the feed is read; nil if the feed is read back to
	// its beginning.
	Snapshot *SnapshotPosition `json:"snapshot,omitempty"`
	// Held is how many patches are held back until the PUT before them is read, and Holds is how many have
	// been held back so far.
	Held  int64 `json:"held,omitempty"`
	Holds int64 `json:"holds,omitempty"`
}

// A SnapshotPosition is a place in a snapshot: the first Entities entities of
// page Page (both from 0) and all pages before it have been read.
type SnapshotPosition struct {
	Index    string `json:"index"` // URL of the index
	Page     int    `json:"page"`
	Entities int    `json:"entities"`
	// Replaces is set if the snapshot replaces the data of the consumer's sink: once it has been read, data
	// that it does not have is removed.
	Replaces bool `json:"replaces,omitempty"`
}

// IsZero reports whether p is before the first entity.
func (p Position) IsZero() bool { return p == Position{} }
