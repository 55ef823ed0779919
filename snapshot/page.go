package snapshot

import (
	"encoding/json"
	"fmt"
)

// A PageInfo is kept with a page of a snapshot in a store.
type PageInfo struct {
	Entities int    `json:"entities"`
	SHA256   string `json:"sha256"` // of the page, in hex
}

// Encode returns the metadata to store with a page.
func (p PageInfo) Encode() ([]byte, error) {
	data, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encode metadata of a snapshot page: %w", err)
	}
	return data, nil
}

// DecodePage reads what Encode wrote.
func DecodePage(data []byte) (PageInfo, error) {
	var p PageInfo
	if err := json.Unmarshal(data, &p); err != nil {
		return p, fmt.Errorf("decode metadata of a snapshot page: %w", err)
	}
	return p, nil
}
