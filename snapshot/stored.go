package snapshot

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/feedctl/feedctl/internal/jsonscan"
)

// maxMembers limits the size of a stored index without its pages, in bytes.
const maxMembers = 1 << 20

// A Stored is an index read from a store. Pages is empty: their keys follow from the ID of the
// snapshot, so they are only counted.
type Stored struct {
	Index
	PageCount int
}

// ReadStored reads the stored index of the snapshot with the given ID to its end. The metadata
// is that written by [IndexInfo.Encode], or empty if an earlier version wrote the index. The
// pages take no memory. The error matches [ErrMetadata], [ErrInvalid], or [ErrDigest] if the
// index has been changed; any other error is one of reading.
func ReadStored(id string, metadata []byte, index io.Reader) (*Stored, error) {
	hash := sha256.New()
	source := &errorReader{src: io.TeeReader(index, hash)}
	members, count, invalid := splitPages(source)
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
		return nil, fmt.Errorf("%w: %w", ErrInvalid, invalid)
	}
	x, err := Decode(members)
	if err == nil && x.ID != id {
		err = fmt.Errorf("%w: it belongs to snapshot %s", ErrInvalid, x.ID)
	}
	if err != nil {
		return nil, err
	}
	return &Stored{*x, count}, nil
}

// splitPages returns an index without the elements of "pages", and their number.
func splitPages(index io.Reader) (members []byte, count int, err error) {
	r := jsonscan.NewReader(index)
	out := bytes.NewBufferString("{")
	err = r.Object(func(name []byte) error {
		if out.Len() > 1 {
			out.WriteByte(',')
		}
		out.Write(name)
		out.WriteByte(':')
		if text, err := jsonscan.Unquote(name); err != nil {
			return err
		} else if text == "pages" {
			out.WriteString("[]")
			count = 0
			return r.Array(func() error {
				count++
				if c, err := r.Peek(); err == nil && c != '"' {
					return fmt.Errorf("pages[%d] is not a string", count-1)
				}
				return r.Skip()
			})
		}
		value, whole, err := r.Value(max(maxMembers-out.Len(), 0))
		if err == nil && !whole {
			err = fmt.Errorf("more than %d bytes without its pages", maxMembers)
		}
		out.Write(value)
		return err
	})
	if err == nil {
		if _, end := r.Peek(); end != io.EOF {
			err = errors.New("trailing data")
		}
	}
	out.WriteByte('}')
	return out.Bytes(), count, err
}

// An errorReader records the error of its source.
type errorReader struct {
	src io.Reader
	err error
}

func (f *errorReader) Read(p []byte) (int, error) {
	n, err := f.src.Read(p)
	if err != nil && err != io.EOF {
		f.err = err
	}
	return n, err
}
