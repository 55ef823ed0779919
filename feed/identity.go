package feed

import (
	"crypto/rand"
	"encoding/hex"
	"time"
)

// An Identity distinguishes a feed from all others, even from one that was at the same URL before. It also
// distinguishes the feed's history from those that it had before its store was restored to an older state.
// Feeds of older versions and of other servers have the zero Identity.
type Identity struct {
	// ID is 16 random bytes in hex. A feed gets it when it is created, and all copies of the feed have the
	// same ID. A feed that was deleted and published to again has a different one.
	ID string
	// Epoch is the part of the feed's history that is being written; zero for the first part.
	Epoch Epoch
}

// An Epoch is a part of a feed's history. The first epoch has no ID. Another begins when the feed's store has
// been restored to an older state: the entities up to that state belong to both epochs, and the later
// entities of the earlier epoch are gone.
type Epoch struct {
	Number int64  // counts from 1; 0 in the first epoch
	ID     string // 16 random bytes in hex, which differ even for two epochs that begin with the same backup
	// Last is the Last-Modified of the feed's newest entity when the epoch began, in whole
	// seconds. Entities of earlier epochs that are later than Last are no longer in the feed.
	Last time.Time
	// Kept means that no entity was lost when the epoch began: the pages were rewritten, but hold all
	// entities of the previous epoch with the same Content-IDs and times.
	Kept bool
}

// NewID returns the ID of a new feed or epoch.
func NewID() string {
	b := make([]byte, idSize)
	_, _ = rand.Read(b) // it never fails
	return hex.EncodeToString(b)
}

// ValidID reports whether id has the form of the IDs that [NewID] returns.
func ValidID(id string) bool {
	b, err := hex.DecodeString(id)
	return err == nil && len(b) == idSize && hex.EncodeToString(b) == id
}

// idSize is the size of an ID in bytes.
const idSize = 16
