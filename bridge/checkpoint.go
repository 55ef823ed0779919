package bridge

import (
	"encoding/json"
	"errors"
	"fmt"
)

// ErrForeign: the feed was filled from another source, or not by a bridge.
var ErrForeign = errors.New("feed has another source")

// A Checkpoint is what the feed's newest page says of the source. Members of a source's own are
// beside these, see [Source.State].
type Checkpoint struct {
	Bridge string `json:"bridge"` // the kind of source
	// Feed tells the feed from another that was filled under its name, after it was deleted: it is
	// made up when the feed begins.
	Feed   string `json:"feed"`
	Source string `json:"source"` // its URL, without credentials
	// Since is the place in the source up to which everything is in the feed, as the source wrote
	// it; absent before the first piece is in the feed whole.
	Since   json.RawMessage `json:"since,omitempty"`
	Session string          `json:"session"` // of the run that wrote it
	// Commit counts, so that each checkpoint differs from the one before.
	Commit int64 `json:"commit"`
	// Selection is the digest of what decides which changes were published.
	Selection string `json:"selection"`

	encoded []byte // as it is in the feed
}

// ParseCheckpoint reads the checkpoint of a feed; nil is that of a feed that does not exist. The
// error matches [ErrForeign] if it is not that of a bridge of this kind.
func ParseCheckpoint(data []byte, kind, feed string) (c Checkpoint, err error) {
	if len(data) == 0 {
		return Checkpoint{}, nil
	}
	if err := json.Unmarshal(data, &c); err != nil || c.Bridge != kind {
		return c, fmt.Errorf("%w: the checkpoint of feed %q is not that of a bridge from %s: publish to another feed", ErrForeign, feed, kind)
	}
	c.encoded = data
	return c, nil
}

// Begins reports whether nothing has been published yet.
func (c *Checkpoint) Begins() bool { return c.Bridge == "" }

// State reads the members that are the source's own into v.
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
