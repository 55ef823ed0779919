package kinto

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/feedctl/feedctl/bridge"
)

// A Position is how far a collection has been read: the member "since" of a checkpoint, and of
// [bridge.Progress]. In Progress, Newest has only Since, the stamp of the collection. Stamps are in
// milliseconds, times in seconds since 1970.
type Position struct {
	// Since is the highest stamp up to which changes were read.
	Since int64 `json:"since"`
	// ID is the id of a row that had this stamp. Lists from this position have that version of the row
	// or a later one, unless the server was restored from a backup. Empty: not known.
	ID string `json:"id,omitempty"`
	// Stamp is the stamp that the collection had when its changes were last read to the end.
	Stamp int64 `json:"stamp,omitempty"`
	// Polled is the time at which changes were last read to the end.
	Polled int64 `json:"polled,omitempty"`
	// Reconciled is the time at which all ids were last compared.
	Reconciled int64 `json:"reconciled,omitempty"`
	// Missing is how many more records the collection had than the feed when all ids were last
	// compared, because they are in quarantine.
	Missing int64 `json:"missing,omitempty"`
	// Uncounted is set if Missing is not known, because the collection changed meanwhile. Missing is
	// then set to the first difference that is found.
	Uncounted bool `json:"uncounted,omitempty"`
	// Metadata is the stamp of the metadata of the collection.
	Metadata int64  `json:"metadata,omitempty"`
	Marker   string `json:"marker,omitempty"` // see [Config.Mark]
	// Tail is set while older records are being read, newest first: they have been read down to this stamp.
	Tail int64 `json:"tail,omitempty"`
}

// ParsePosition parses a position in a checkpoint. For an empty feed, data is nil.
func ParsePosition(data json.RawMessage) (p Position, err error) {
	if data == nil {
		return p, nil
	}
	if err := json.Unmarshal(data, &p); err != nil {
		return p, fmt.Errorf("read position in collection: %w", err)
	}
	return p, nil
}

func (p Position) encode() json.RawMessage {
	data, err := json.Marshal(p)
	if err != nil {
		panic(err) // it has only numbers and a string
	}
	return data
}

// piece returns a piece from this position to another one.
func (p Position) piece(to Position) *bridge.Piece {
	return &bridge.Piece{Before: p.encode(), After: to.encode(), Settled: settled}
}

// age returns how long ago the given Unix time was.
func age(seconds int64) time.Duration { return time.Since(time.Unix(seconds, 0)) }
