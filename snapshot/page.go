package snapshot

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/feedctl/feedctl/internal/selfcheck"
)

// Errors from reading pages and indexes in a store.
var (
	// ErrMetadata means that the metadata is damaged or belongs to another object.
	ErrMetadata = errors.New("metadata is damaged")
	// ErrDigest means that the SHA-256 of the index differs from the one in its metadata.
	ErrDigest = errors.New("index is damaged")
)

// A PageInfo is the metadata of a snapshot page in a store.
type PageInfo struct {
	Entities int    `json:"entities"`
	SHA256   string `json:"sha256"` // of the page, in hex
	// ID is the ID of the snapshot, Number is the number of the page in the snapshot, from 0, and
	// Boundary is the boundary of the page. Earlier versions did not write these members.
	ID       string `json:"id,omitempty"`
	Number   int    `json:"page,omitempty"`
	Boundary string `json:"boundary,omitempty"`
}

// Encode returns the metadata to store with a page.
func (p PageInfo) Encode() ([]byte, error) { return encode(p) }

// DecodePage decodes the metadata of page n of the snapshot with the given ID. The error
// matches [ErrMetadata].
func DecodePage(id string, n int, data []byte) (PageInfo, error) {
	var p PageInfo
	if err := decode(data, &p); err != nil {
		return p, err
	}
	if p.ID != "" && (p.ID != id || p.Number != n) {
		return p, fmt.Errorf("%w: it belongs to page %d of snapshot %s", ErrMetadata, p.Number, p.ID)
	}
	return p, nil
}

// An IndexInfo is the metadata of a snapshot index in a store.
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
