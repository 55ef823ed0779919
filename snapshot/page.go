package snapshot

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/feedctl/feedctl/internal/selfcheck"
)

// Errors of what lies in a store.
var (
	// ErrMetadata: the metadata is damaged or that of another object.
	ErrMetadata = errors.New("metadata is damaged")
	// ErrDigest: the index does not have the SHA-256 of its metadata.
	ErrDigest = errors.New("index is damaged")
)

// A PageInfo is kept with a page of a snapshot in a store.
type PageInfo struct {
	Entities int    `json:"entities"`
	SHA256   string `json:"sha256"` // of the page, in hex
	// ID of the snapshot, the page's number in it, from 0, and its boundary. Older programs
	// did not write them.
	ID       string `json:"id,omitempty"`
	Number   int    `json:"page,omitempty"`
	Boundary string `json:"boundary,omitempty"`
}

// Encode returns the metadata to store with a page.
func (p PageInfo) Encode() ([]byte, error) { return encode(p) }

// DecodePage reads what Encode wrote for page n of the snapshot with an ID. The error matches
// ErrMetadata.
func DecodePage(id string, n int, data []byte) (PageInfo, error) {
	var p PageInfo
	if err := decode(data, &p); err != nil {
		return p, err
	}
	if p.ID != "" && (p.ID != id || p.Number != n) {
		return p, fmt.Errorf("%w: it is that of page %d of snapshot %s", ErrMetadata, p.Number, p.ID)
	}
	return p, nil
}

// An IndexInfo is kept with the index of a snapshot in a store.
type IndexInfo struct {
	SHA256 string `json:"sha256"` // of the index, in hex
}

// Encode returns the metadata to store with an index.
func (i IndexInfo) Encode() ([]byte, error) { return encode(i) }

func encode(info any) ([]byte, error) {
	data, err := json.Marshal(info)
	if err != nil {
		return nil, fmt.Errorf("encode metadata of a snapshot: %w", err)
	}
	return selfcheck.Add(data), nil
}

func decode(data []byte, info any) error {
	err := selfcheck.Verify(data)
	if err == nil {
		err = json.Unmarshal(data, info)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMetadata, err)
	}
	return nil
}
