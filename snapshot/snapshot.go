package snapshot

import (
	"encoding/json"
	"time"
)

// An Index lists the pages that together hold the full state at one moment.
type Index struct {
	ID string
	// CreatedAt is where a reader that only knows the specification enters the
	// feed. It is a whole second, and not later than Feed says; reading and
	// writing round it down.
	CreatedAt time.Time
	// Pages are absolute URLs. In an index that lies in a store they may be
	// relative; see [Decode] and [Index.Resolve].
	Pages []string
	// Feed, if set, is the exact position in a feed that the snapshot
	// corresponds to. It travels as the additional property "feed".
	Feed *FeedPosition
	// Entities is the number of entities in all pages, the additional property
	// "entities"; 0 if it is not known, or if there are no Pages.
	Entities int64
	// Extra has the other additional properties, as they were read.
	Extra map[string]json.RawMessage
}

// A FeedPosition is the place in a feed where the reading goes on after a
// snapshot: after the entity with this Content-ID.
type FeedPosition struct {
	URL          string    `json:"url"`            // the feed's entry point
	Page         string    `json:"page,omitempty"` // of the entity
	LastModified time.Time `json:"lastModified"`   // of the entity, in whole milliseconds
	ContentID    string    `json:"contentId,omitempty"`
}
