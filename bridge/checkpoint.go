package bridge

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/feedctl/feedctl/chain"
)

// ErrForeign means that the feed was filled from another source, or not by a bridge.
var ErrForeign = errors.New("feed has another source")

// A Checkpoint is the checkpoint in the newest page of the feed. A source may add members, see
// [Source.State].
type Checkpoint struct {
	Bridge string `json:"bridge"` // the kind of source
	// Feed is a random id, created with the feed. It distinguishes the feed from a deleted one of
	// the same name.
	Feed   string `json:"feed"`
	Source string `json:"source"` // its URL, without credentials
	// Since is the position in the source up to which everything is in the feed, as the source sent
	// it; absent until the first piece is completely in the feed.
	Since   json.RawMessage `json:"since,omitempty"`
	Session string          `json:"session"` // of the run that wrote it
	// Commit is incremented so that each checkpoint differs from the one before.
	Commit int64 `json:"commit"`
	// Selection is [Config.Selection].
	Selection string `json:"selection"`

	encoded []byte // as stored in the feed
	// known is the number of the page that the checkpoint is from: the index has all versions on the
	// pages before it. Zero means none.
	known int64
	// newest is the page with the number known, if no page was found beyond it.
	newest *chain.Page
}

// ParseCheckpoint parses the checkpoint of a feed. data is nil if the feed does not exist. The
// error matches [ErrForeign] if the checkpoint is not from a bridge of this kind.
func ParseCheckpoint(data []byte, kind, feed string) (c Checkpoint, err error) {
	if len(data) == 0 {
		return Checkpoint{}, nil
	}
	if err := json.Unmarshal(data, &c); err != nil || c.Bridge != kind {
		return c, fmt.Errorf("%w: the checkpoint of feed %q is not from a %s bridge: publish to another feed", ErrForeign, feed, kind)
	}
	c.encoded = data
	return c, nil
}

// SourceOf returns the kind and the URL of the source of the bridge that wrote a checkpoint. They are
// empty for the checkpoint of another producer.
func SourceOf(checkpoint []byte) (kind, url string) {
	var c Checkpoint
	if json.Unmarshal(checkpoint, &c) != nil || c.Bridge == "" {
		return "", ""
	}
	return c.Bridge, c.Source
}

// Begins reports whether nothing has been published yet.
func (c *Checkpoint) Begins() bool { return c.Bridge == "" }

// State decodes into v the members that the source has added.
func (c *Checkpoint) State(v any) error {
	if c.encoded == nil {
		return nil
	}
	if err := json.Unmarshal(c.encoded, v); err != nil {
		return fmt.Errorf("read checkpoint of feed: %w", err)
	}
	return nil
}

// encode returns the checkpoint with the members of a source's state.
func (c *Checkpoint) encode(state any) ([]byte, error) {
	all, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encode checkpoint: %w", err)
	}
	own, err := json.Marshal(state)
	if err != nil {
		return nil, fmt.Errorf("encode checkpoint: %w", err)
	}
	if len(own) > len("{}") {
		all = append(append(all[:len(all)-1], ','), own[1:]...)
	}
	return all, nil
}
