package snapshot

import (
	"encoding/json"
	"time"
)

// An Index lists the pages that together hold the full state at one moment.
type Index struct {
	ID string
	// CreatedAt is the time in the feed at which a reader that knows only the specification
	// continues. It is not later than Feed.LastModified, and is rounded down to a whole second when
	// the index is read or written.
	CreatedAt time.Time
	// Pages are absolute URLs. In an index in a store they may be relative.
	Pages []string
	// Feed, if set, is the exact position in a feed to which the snapshot corresponds. It is the
	// additional property "feed".
	Feed *FeedPosition
	// Entities is the number of entities in all pages, the additional property
	// "entities"; 0 if it is unknown or there are no Pages.
	Entities int64
	// Extra holds the other additional properties, unchanged.
	Extra map[string]json.RawMessage
}

// A FeedPosition is the position in a feed at which a reader continues after a
// snapshot: after the entity with this Content-ID.
type FeedPosition struct {
	URL          string    `json:"url"`            // the feed's entry point
	Page         string    `json:"page,omitempty"` // of the entity
	LastModified time.Time `json:"lastModified"`   // of the entity, in whole milliseconds
	ContentID    string    `json:"contentId,omitempty"`
}
