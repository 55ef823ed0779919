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

// maxMembers is how much an index that lies in a store may have besides its pages, in bytes.
const maxMembers = 1 << 20

// A Stored is an index as it lies in a store. Where its pages are follows from the names of
// snapshot and page, so they are only counted: Pages is empty.
type Stored struct {
	Index
	PageCount int
}

// ReadStored reads the index of the snapshot with an ID as it lies in a store, to its end, with
// the metadata that IndexInfo.Encode wrote; none if an older program wrote it. It takes memory
// for all but the pages. The error matches ErrMetadata or ErrInvalid, or ErrDigest if the index
// is not what was written; others are those of reading.
func ReadStored(id string, metadata []byte, index io.Reader) (*Stored, error) {
	hash := sha256.New()
	source := &failing{src: io.TeeReader(index, hash)}
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
			return nil, fmt.Errorf("%w: it has the SHA-256 %x, not %s as its metadata says", ErrDigest, sum, info.SHA256)
		}
	}
	if invalid != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, invalid)
	}
	x, err := Decode(members)
	if err == nil && x.ID != id {
		err = fmt.Errorf("%w: it is that of snapshot %s", ErrInvalid, x.ID)
	}
	if err != nil {
		return nil, err
	}
	return &Stored{*x, count}, nil
}

// splitPages returns an index without the elements of its pages, and how many there are.
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
			err = fmt.Errorf("it has more than %d bytes besides its pages", maxMembers)
		}
		out.Write(value)
		return err
	})
	if err == nil {
		if _, end := r.Peek(); end != io.EOF {
			err = errors.New("something follows its end")
		}
	}
	out.WriteByte('}')
	return out.Bytes(), count, err
}

// A failing reader keeps the error of its source.
type failing struct {
	src io.Reader
	err error
}

func (f *failing) Read(p []byte) (int, error) {
	n, err := f.src.Read(p)
	if err != nil && err != io.EOF {
		f.err = err
	}
	return n, err
}
