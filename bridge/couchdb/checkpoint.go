package couchdb

import (
	"encoding/json"
	"errors"
	"fmt"
)

// ErrForeign: the feed was filled by something else than a bridge from this database.
var ErrForeign = errors.New("feed has another source")

// A checkpoint is what the feed's newest page says of the source: the place up to which
// everything is in the feed.
type checkpoint struct {
	Bridge string `json:"bridge"` // "couchdb"
	// Feed tells the feed from another that was filled under its name, after it was
	// deleted: it is made up when the feed begins.
	Feed     string `json:"feed"`
	Source   string `json:"source"` // URL of the database, without credentials
	Instance string `json:"instance,omitempty"`
	// Since is as the source wrote it; absent before the first batch of rows is in
	// the feed whole.
	Since json.RawMessage `json:"since,omitempty"`
	// Session is that of the replication log.
	Session string `json:"session"`
	// Known is a record that the replication log had before this was written.
	Known *mark `json:"known,omitempty"`
	// Commit counts, so that each checkpoint differs from the one before.
	Commit int64 `json:"commit"`
	// Selection is the digest of what it published.
	Selection string `json:"selection"`
	// Conflicts: all leaf revisions were published.
	Conflicts bool `json:"conflicts,omitempty"`
}

const bridgeName = "couchdb"

// parseCheckpoint reads the checkpoint of a feed; nil is the one of a feed that does not
// exist.
func parseCheckpoint(data []byte, feed string) (c checkpoint, err error) {
	if len(data) == 0 {
		return checkpoint{}, nil
	}
	if err := json.Unmarshal(data, &c); err != nil || c.Bridge != bridgeName {
		return c, fmt.Errorf("%w: the checkpoint of feed %q is not that of a bridge from CouchDB: publish to another feed", ErrForeign, feed)
	}
	return c, nil
}

func (c checkpoint) encode() ([]byte, error) {
	c.Bridge = bridgeName
	return json.Marshal(c)
}

// origin returns what the checkpoint says of the source.
func (c *checkpoint) origin() origin {
	return origin{since: c.Since, session: c.Session, known: c.Known, source: c.Source}
}

// begins reports whether nothing has been published yet.
func (c *checkpoint) begins() bool { return c.Bridge == "" }
