//go:build unix

package file

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"strconv"
	"time"

	"github.com/feedctl/feedctl/internal/regular"
	"github.com/feedctl/feedctl/storage"
)

const (
	metaSuffix = "@meta"

	// idSize is the length of an ID; see newID.
	idSize = 26

	// maxState limits the size of a metadata file: the data in base64, and the rest.
	maxState = storage.MaxMeta/3*4 + 4<<10
)

// A state is the content of a metadata file: one state of an object.
type state struct {
	Version      storage.Version `json:"version"`
	Body         string          `json:"body"` // the body file is KEY@Body
	Size         int64           `json:"size"`
	Modified     time.Time       `json:"modified"`
	ContentType  string          `json:"content_type,omitempty"`
	CacheControl string          `json:"cache_control,omitempty"`
	Data         []byte          `json:"data,omitempty"`
}

func newState(meta storage.Meta, body string, size int64) state {
	return state{
		Version:      storage.Version(newID()),
		Body:         body,
		Size:         size,
		ContentType:  meta.ContentType,
		CacheControl: meta.CacheControl,
		Data:         meta.Data,
	}
}

func (st *state) info(key string) storage.Info {
	return storage.Info{
		Key:      key,
		Version:  st.Version,
		Size:     st.Size,
		Modified: st.Modified,
		Meta: storage.Meta{
			ContentType:  st.ContentType,
			CacheControl: st.CacheControl,
			Data:         st.Data,
		},
	}
}

// encode returns one line of JSON and one with its checksum.
func (st *state) encode() ([]byte, error) {
	line, err := json.Marshal(st)
	if err != nil {
		return nil, fmt.Errorf("encode metadata: %w", err)
	}
	return fmt.Appendf(line, "\n%08x\n", checksum(line)), nil
}

func decodeState(data []byte) (*state, error) {
	line, sum, _ := bytes.Cut(data, []byte("\n"))
	if string(sum) != fmt.Sprintf("%08x\n", checksum(line)) {
		return nil, errors.New("checksum does not match")
	}
	var st state
	if err := json.Unmarshal(line, &st); err != nil {
		return nil, err
	}
	if st.Size < 0 || !isID(st.Body) {
		return nil, fmt.Errorf("invalid size %d or body %q", st.Size, st.Body)
	}
	return &st, nil
}

func checksum(line []byte) uint32 {
	return crc32.Checksum(line, crc32.MakeTable(crc32.Castagnoli))
}

func isID(s string) bool {
	if len(s) != idSize {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < 'A' || c > 'Z') && (c < '2' || c > '7') {
			return false
		}
	}
	return true
}

// readState reads the metadata file of key. The error matches
// [storage.ErrNotFound] or [storage.ErrLayout] where it applies.
//
// While the file is open, one append may exchange it for another, the next one
// overwrite it, and a third exchange it back. A state is therefore accepted only if
// two consecutive reads by name agree, and a file that seems damaged is read again:
// the file that currently has the name is complete and not written to.
func (s *Store) readState(key string) (*state, error) {
	var last *state
	for damages := 0; ; {
		st, inPlace, err := s.readMeta(key)
		switch {
		case errors.Is(err, storage.ErrLayout):
			if damages++; damages == 3 {
				return nil, err
			}
		case err != nil:
			return nil, err
		case inPlace && last != nil && last.Version == st.Version:
			return st, nil
		}
		last = st
	}
}

// readMeta reads the metadata file of key once. It reports whether the file still had
// its name afterwards.
func (s *Store) readMeta(key string) (st *state, inPlace bool, err error) {
	f, err := regular.Open(s.metaPath(key), os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		if err := s.present(); err != nil {
			return nil, false, err
		}
		return nil, false, storage.ErrNotFound
	} else if err != nil {
		return nil, false, refusal(err)
	}
	defer f.Close()
	opened, err := f.Stat()
	if err != nil {
		return nil, false, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxState+1))
	if err != nil {
		return nil, false, fmt.Errorf("read %s: %w", f.Name(), err)
	}
	if len(data) > maxState {
		return nil, false, damaged(f.Name(), "larger than "+strconv.Itoa(maxState)+" bytes")
	}
	if st, err = decodeState(data); err != nil {
		return nil, false, damaged(f.Name(), err.Error())
	}
	now, err := os.Stat(f.Name())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil // deleted since it was opened
	} else if err != nil {
		return nil, false, err
	}
	return st, os.SameFile(opened, now), nil
}

func damaged(path, how string) error {
	return fmt.Errorf("%w: file %s is damaged: %s; restore it", storage.ErrLayout, path, how)
}

func (s *Store) metaPath(key string) string { return s.inObjects(key) + metaSuffix }

func (s *Store) bodyPath(key, id string) string { return s.inObjects(key) + "@" + id }
