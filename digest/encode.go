package digest

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/snapshot"
)

// MediaType is the media type of roots, nodes and leaves, which are lines of JSON.
const MediaType = "application/x-ndjson"

// Limits for digests, both when they are written and when they are read.
const (
	MaxContentID = 256       // bytes; longer Content-IDs are left out
	MaxKey       = 128 << 10 // bytes
	MaxObject    = 8 << 20   // bytes of a node or leaf
	MaxRoot      = 64 << 20  // bytes; enough for 10^10 keys
)

// Keys are written as in Content-Location, percent-encoded, since they may hold any bytes.

type entryLine struct {
	Key       *string `json:"key"`
	Sum       *Sum    `json:"sum"`
	ContentID string  `json:"contentId,omitempty"`
	Page      int64   `json:"page,omitempty"`
	Offset    int64   `json:"offset,omitempty"`
}

type childLine struct {
	From   *string `json:"from"`
	Count  int64   `json:"count"`
	Hash   *Hash   `json:"hash"`
	Object *Hash   `json:"object"`
}

type rootLine struct {
	Version  int                   `json:"digest"`
	Feed     snapshot.FeedPosition `json:"feed"`
	Snapshot string                `json:"snapshot,omitempty"`
	Versions bool                  `json:"versions,omitempty"`
	Count    int64                 `json:"count"`
	Hash     *Hash                 `json:"hash"`
}

// version is the version of the algorithm, which comprises sums, hashes, cuts and encoding.
const version = 1

// lines encodes values, one on each line.
type lines struct {
	buf     bytes.Buffer
	encoder *json.Encoder
}

func newLines() *lines {
	l := &lines{}
	l.encoder = json.NewEncoder(&l.buf)
	l.encoder.SetEscapeHTML(false) // Content-IDs have angle brackets
	return l
}

func (l *lines) entry(e Entry) error {
	key := feed.EncodeKey(e.Key)
	if len(e.ContentID) > MaxContentID {
		e.ContentID = ""
	}
	return l.encoder.Encode(entryLine{&key, &e.Sum, e.ContentID, e.Page, e.Offset})
}

func (l *lines) child(c Child) error {
	from := feed.EncodeKey(c.From)
	return l.encoder.Encode(childLine{&from, c.Count, &c.Hash, &c.Object})
}

// object returns the encoded node or leaf, and its name.
func (l *lines) object() (Hash, []byte, error) {
	data := l.buf.Bytes()
	if len(data) > MaxObject {
		return Hash{}, nil, fmt.Errorf("encode digest: node or leaf of %d bytes is larger than %d", len(data), MaxObject)
	}
	return sha256.Sum256(data), data, nil
}

// encodeNode encodes the leaves of a node.
func encodeNode(leaves []Child) (Hash, []byte, error) {
	l := newLines()
	for _, c := range leaves {
		if err := l.child(c); err != nil {
			return Hash{}, nil, fmt.Errorf("encode digest: %w", err)
		}
	}
	return l.object()
}

// Encode encodes the root: one line for the digest as a whole, and one for each node.
func (r *Root) Encode() ([]byte, error) {
	l := newLines()
	position := r.Feed
	position.LastModified = feed.Milliseconds(position.LastModified)
	if err := l.encoder.Encode(rootLine{version, position, r.Snapshot, r.Versions, r.Count, &r.Hash}); err != nil {
		return nil, fmt.Errorf("encode digest: %w", err)
	}
	for _, c := range r.Nodes {
		if err := l.child(c); err != nil {
			return nil, fmt.Errorf("encode digest: %w", err)
		}
	}
	if l.buf.Len() > MaxRoot {
		return nil, fmt.Errorf("encode digest: root of %d bytes is larger than %d", l.buf.Len(), MaxRoot)
	}
	return l.buf.Bytes(), nil
}
