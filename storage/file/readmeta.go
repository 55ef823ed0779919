//go:build unix

package file

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"

	"github.com/feedctl/feedctl/internal/regular"
	"github.com/feedctl/feedctl/storage"
)

// readState returns the current state of key. The error matches [storage.ErrNotFound] if there is
// no object, and [storage.ErrLayout] if its metadata is damaged.
//
// If both slots hold the same state, that is the current state, since a write changes one slot
// first. Otherwise a read may see a mixture of several writes, so two reads must agree. The
// documentation of the package explains why.
func (s *Store) readState(key string) (*state, error) {
	var last []byte
	for {
		r, err := s.readRecord(key)
		if err != nil {
			return nil, err
		}
		if r.agree() {
			return r.states[0], nil
		}
		slot, err := s.current(key, &r)
		if last != nil && bytes.Equal(last, r.data) {
			if err != nil {
				return nil, err
			}
			return r.states[slot], nil
		}
		last = r.data
	}
}

// readRecord reads the metadata file of key once.
func (s *Store) readRecord(key string) (record, error) {
	f, err := s.openMeta(key, os.O_RDONLY)
	if err != nil {
		return record{}, err
	}
	defer f.Close()
	return readRecord(f)
}

// openMeta opens the metadata file of key.
func (s *Store) openMeta(key string, flag int) (*os.File, error) {
	f, err := regular.Open(s.metaPath(key), flag, 0)
	if errors.Is(err, fs.ErrNotExist) {
		if err := s.present(); err != nil {
			return nil, err
		}
		return nil, storage.ErrNotFound
	} else if err != nil {
		return nil, refusal(err)
	}
	return f, nil
}

func readRecord(f *os.File) (record, error) {
	data := make([]byte, 2*minSlot+1) // most metadata files have 2*minSlot bytes
	n := 0
	for {
		k, err := f.ReadAt(data[n:], int64(n))
		n += k
		switch {
		case err == io.EOF:
			return decodeRecord(data[:n]), nil
		case err != nil:
			return record{}, fmt.Errorf("read %s: %w", f.Name(), err)
		case n > maxMetaFile:
			return decodeRecord(data[:n]), nil
		}
		data = append(data, make([]byte, maxMetaFile+1-n)...)
	}
}

// current returns the slot of the current state: the newest whose tail is in the body file.
// A crash of the machine may have left a state without its tail; such a state was never
// acknowledged.
func (s *Store) current(key string, r *record) (slot int, err error) {
	if r.states[0] == nil && r.states[1] == nil {
		return 0, damaged(s.metaPath(key), r.err.Error())
	}
	slot = r.newest()
	if r.slotSize == 0 || r.agree() {
		return slot, nil
	}
	for range 2 {
		intact, err := s.hasTail(key, r.states[slot])
		if intact || err != nil {
			return slot, err
		}
		slot = 1 - slot
	}
	return 0, damaged(s.metaPath(key), "no state matches the body")
}

// hasTail reports whether the body file of key holds the tail of a state, which may be nil. It also
// returns true if there is no body file, an error that is reported later.
func (s *Store) hasTail(key string, st *state) (bool, error) {
	if st == nil || st.Tail == 0 {
		return st != nil, nil
	}
	f, err := regular.Open(s.bodyPath(key, st.Body), os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	} else if err != nil {
		return false, refusal(err)
	}
	defer f.Close()
	sum := crc32.New(castagnoli)
	n, err := io.Copy(sum, tailOf(f, st))
	if err != nil {
		return false, fmt.Errorf("read %s: %w", f.Name(), err)
	}
	return n == st.Tail && sum.Sum32() == st.TailCRC, nil
}

func tailOf(f *os.File, st *state) io.Reader {
	return io.NewSectionReader(f, st.Size-st.Tail, st.Tail)
}

func damaged(path, how string) error {
	return fmt.Errorf("%w: file %s is damaged: %s; restore it", storage.ErrLayout, path, how)
}

func (s *Store) metaPath(key string) string { return s.inObjects(key) + metaSuffix }

func (s *Store) bodyPath(key, id string) string { return s.inObjects(key) + "@" + id }
