package verify

import (
	"bufio"
	"bytes"
	"cmp"
	"container/heap"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

// idsInMemory is the number of Content-IDs, of 32 bytes each, that are held in memory before they
// are written to disk.
const idsInMemory = 1 << 17

// An occurrence is one use of a Content-ID.
type occurrence struct {
	id     [16]byte // the beginning of the Content-ID's SHA-256
	page   uint32
	part   uint32
	offset int64
}

const occurrenceSize = 32

func (s occurrence) compare(o occurrence) int {
	return cmp.Or(bytes.Compare(s.id[:], o.id[:]), cmp.Compare(s.page, o.page), cmp.Compare(s.part, o.part))
}

func (s occurrence) append(b []byte) []byte {
	b = append(b, s.id[:]...)
	b = binary.BigEndian.AppendUint32(b, s.page)
	b = binary.BigEndian.AppendUint32(b, s.part)
	return binary.BigEndian.AppendUint64(b, uint64(s.offset))
}

func decodeOccurrence(b []byte) occurrence {
	return occurrence{
		id: [16]byte(b), page: binary.BigEndian.Uint32(b[16:]), part: binary.BigEndian.Uint32(b[20:]),
		offset: int64(binary.BigEndian.Uint64(b[24:])),
	}
}

// ids finds duplicate Content-IDs with an external merge sort, whose memory does not depend on the
// number of Content-IDs.
type ids struct {
	dir  string
	max  int // occurrences in memory
	held []occurrence
	file *os.File // all runs in sequence; nil if there are none
	ends []int64  // ends of the runs in the file
}

func newIDs(dir string, maxInMemory int) *ids { return &ids{dir: dir, max: maxInMemory} }

func (s *ids) add(id []byte, page, part int, offset int64) error {
	if len(s.held) == s.max {
		if err := s.spill(); err != nil {
			return err
		}
	}
	sum := sha256.Sum256(id)
	s.held = append(s.held, occurrence{id: [16]byte(sum[:]), page: uint32(page), part: uint32(part), offset: offset})
	return nil
}

// spill writes the occurrences that are in memory to disk, as one sorted run.
func (s *ids) spill() error {
	if s.file == nil {
		file, err := os.CreateTemp(s.dir, "feedctl-verify-*")
		if err != nil {
			return fmt.Errorf("create a temporary file for Content-IDs: %w", err)
		}
		s.file = file
	}
	slices.SortFunc(s.held, occurrence.compare)
	w := bufio.NewWriter(s.file)
	record := make([]byte, 0, occurrenceSize)
	for _, one := range s.held {
		if _, err := w.Write(one.append(record[:0])); err != nil {
			return fmt.Errorf("write Content-IDs to %s: %w", s.file.Name(), err)
		}
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write Content-IDs to %s: %w", s.file.Name(), err)
	}
	start := int64(0)
	if len(s.ends) > 0 {
		start = s.ends[len(s.ends)-1]
	}
	s.ends = append(s.ends, start+int64(len(s.held))*occurrenceSize)
	s.held = s.held[:0]
	return nil
}

// duplicates calls found for each occurrence of a Content-ID after the first.
func (s *ids) duplicates(found func(first, again occurrence)) error {
	slices.SortFunc(s.held, occurrence.compare)
	merge := merger{{memory: s.held}}
	start := int64(0)
	for _, end := range s.ends {
		merge = append(merge, &run{disk: bufio.NewReader(io.NewSectionReader(s.file, start, end-start))})
		start = end
	}
	kept := merge[:0]
	for _, one := range merge {
		more, err := one.advance()
		if err != nil {
			return err
		}
		if more {
			kept = append(kept, one)
		}
	}
	merge = kept
	heap.Init(&merge)
	var first occurrence
	for started := false; len(merge) > 0; started = true {
		next := merge[0].next
		if started && next.id == first.id {
			found(first, next)
		} else {
			first = next
		}
		more, err := merge[0].advance()
		if err != nil {
			return err
		}
		if more {
			heap.Fix(&merge, 0)
		} else {
			heap.Pop(&merge)
		}
	}
	return nil
}

// close removes the temporary file.
func (s *ids) close() error {
	if s.file == nil {
		return nil
	}
	return errors.Join(s.file.Close(), os.Remove(s.file.Name()))
}

// A run reads a sorted run of occurrences from memory or from disk.
type run struct {
	memory []occurrence
	disk   *bufio.Reader
	next   occurrence
}

// advance reads the next occurrence; it returns false at the end.
func (s *run) advance() (bool, error) {
	if s.disk == nil {
		if len(s.memory) == 0 {
			return false, nil
		}
		s.next, s.memory = s.memory[0], s.memory[1:]
		return true, nil
	}
	var record [occurrenceSize]byte
	if _, err := io.ReadFull(s.disk, record[:]); errors.Is(err, io.EOF) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("read Content-IDs back: %w", err)
	}
	s.next = decodeOccurrence(record[:])
	return true, nil
}

// A merger is a heap of runs, with the run whose next occurrence is smallest on top.
type merger []*run

func (m merger) Len() int           { return len(m) }
func (m merger) Less(i, j int) bool { return m[i].next.compare(m[j].next) < 0 }
func (m merger) Swap(i, j int)      { m[i], m[j] = m[j], m[i] }
func (m *merger) Push(x any)        { *m = append(*m, x.(*run)) }
func (m *merger) Pop() any {
	last := len(*m) - 1
	s := (*m)[last]
	*m = (*m)[:last]
	return s
}
