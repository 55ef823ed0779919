//go:build unix

package file

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/feedctl/feedctl/storage"
)

const (
	metaSuffix  = "@meta"
	spareSuffix = "@spare" // in layout 1, a file with an earlier state

	// idSize is the length of an ID; see newID.
	idSize = 26

	// minSlot is the smallest size of a slot, in bytes: if power is lost while the disk writes a
	// block of this size, all of the block may be lost, but nothing else.
	minSlot = 4 << 10

	// maxMetaFile is the maximum size of a metadata file, which has two slots, each for
	// storage.MaxMeta bytes in base64 and the rest of a state.
	maxMetaFile = 2 * 128 << 10
)

// A state is one state of an object, as stored in metadata files.
type state struct {
	Version      storage.Version `json:"version"`
	Body         string          `json:"body"` // the body file is KEY@Body
	Size         int64           `json:"size"`
	Modified     time.Time       `json:"modified"`
	ContentType  string          `json:"content_type,omitempty"`
	CacheControl string          `json:"cache_control,omitempty"`
	Data         []byte          `json:"data,omitempty"`

	Seq     int64  `json:"seq,omitempty"`     // number of appends in this metadata file
	Tail    int64  `json:"tail,omitempty"`    // size of the part at the end of the body that was synced with this state
	TailCRC uint32 `json:"tailCRC,omitempty"` // CRC-32C of the tail
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

// encode returns a line of JSON and a line with its checksum.
func (st *state) encode() ([]byte, error) {
	line, err := json.Marshal(st)
	if err != nil {
		return nil, fmt.Errorf("encode metadata: %w", err)
	}
	return fmt.Appendf(line, "\n%08x\n", checksum(line)), nil
}

// decodeState decodes the state at the beginning of data.
func decodeState(data []byte) (st *state, rest []byte, err error) {
	line, rest, _ := bytes.Cut(data, []byte("\n"))
	rest, ok := bytes.CutPrefix(rest, fmt.Appendf(nil, "%08x\n", checksum(line)))
	if !ok {
		return nil, nil, errors.New("checksum does not match")
	}
	if err := json.Unmarshal(line, &st); err != nil {
		return nil, nil, err
	}
	if st.Size < 0 || st.Tail < 0 || st.Tail > st.Size || !isID(st.Body) {
		return nil, nil, fmt.Errorf("invalid size %d, tail %d or body %q", st.Size, st.Tail, st.Body)
	}
	return st, rest, nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(line []byte) uint32 { return crc32.Checksum(line, castagnoli) }

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

// A record is the content of a metadata file.
type record struct {
	data     []byte
	slotSize int       // in bytes; 0 if the file holds one state and no slots
	states   [2]*state // of each slot; nil if damaged. Without slots, only states[0] is used
	err      error     // why states[0] is damaged
}

func decodeRecord(data []byte) (r record) {
	r.data = data
	if len(data) > maxMetaFile {
		r.err = fmt.Errorf("larger than %d bytes", maxMetaFile)
		return r
	}
	if half := len(data) / 2; half >= minSlot && len(data)&(len(data)-1) == 0 {
		r.slotSize = half
		r.states[0], _, r.err = decodeState(data[:half])
		if bytes.Equal(data[:half], data[half:]) {
			r.states[1] = r.states[0]
		} else {
			r.states[1], _, _ = decodeState(data[half:])
		}
		if r.states[0] != nil || r.states[1] != nil {
			return r
		}
		r.slotSize = 0 // the file may be of this size and yet have no slots
	}
	st, rest, err := decodeState(data)
	if err == nil && len(rest) > 0 {
		st, err = nil, fmt.Errorf("%d bytes after the checksum", len(rest))
	}
	r.states[0], r.err = st, err
	return r
}

// agree reports whether both slots hold the same state, which is then durable.
func (r *record) agree() bool {
	return r.slotSize > 0 && r.states[0] != nil && r.states[1] != nil && r.states[0].Version == r.states[1].Version
}

// newest returns the slot with the newer state.
func (r *record) newest() int {
	a, b := r.states[0], r.states[1]
	if a == nil || b != nil && b.Seq > a.Seq {
		return 1
	}
	return 0
}

// inSlots returns the content of a metadata file with a state in both slots.
func inSlots(encoded []byte) []byte {
	slot := minSlot
	for slot < len(encoded) {
		slot *= 2
	}
	return bytes.Repeat(padded(encoded, slot), 2)
}

// padded returns the content of a slot that holds an encoded state.
func padded(encoded []byte, slot int) []byte {
	data := make([]byte, slot)
	for i := copy(data, encoded); i < slot; i++ {
		data[i] = '\n'
	}
	return data
}
