package snapshot

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
)

// A Stored is an index read from a store. Its Pages is empty: the pages are only counted, since
// their keys can be derived from the ID of the snapshot.
type Stored struct {
	Index
	PageCount int
}

// ReadStored reads the stored index of the snapshot with the given ID to its end. The metadata is
// the result of [IndexInfo.Encode], or empty if an earlier version wrote the index. The list of
// pages takes no memory. The error matches [ErrMetadata], [ErrInvalid], or [ErrDigest] if the index
// has been changed; any other error comes from reading.
func ReadStored(id string, metadata []byte, index io.Reader) (*Stored, error) {
	hash := sha256.New()
	source, count := &errorReader{src: io.TeeReader(index, hash)}, 0
	x, invalid := Read(source, func(string) error { count++; return nil })
	_, _ = io.Copy(io.Discard, source) // the error is source's
	if source.err != nil {
		return nil, fmt.Errorf("read snapshot index: %w", source.err)
	}
	if len(metadata) > 0 {
		var info IndexInfo
		if err := decode(metadata, &info); err != nil {
			return nil, err
		}
		if sum := hash.Sum(nil); info.SHA256 != hex.EncodeToString(sum) {
			return nil, fmt.Errorf("%w: its SHA-256 is %x, but its metadata says %s", ErrDigest, sum, info.SHA256)
		}
	}
	if invalid != nil {
		return nil, invalid
	}
	if x.ID != id {
		return nil, fmt.Errorf("%w: it belongs to snapshot %s", ErrInvalid, x.ID)
	}
	return &Stored{*x, count}, nil
}
