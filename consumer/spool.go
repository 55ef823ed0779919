package consumer

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"

	"github.com/feedctl/feedctl/feed"
)

// A spool holds the entities of one page, which can be read backwards from the last one. Up to
// limit bytes are in memory, more in a temporary file, which is unlinked.
//
// A record consists of the encoded entity, its body, and the sizes of both in 16 bytes.
type spool struct {
	limit int
	mem   []byte
	file  *os.File
	size  int64 // of all records
	buf   []byte
}

const trailerSize = 16

// reset removes the entities.
func (s *spool) reset() {
	s.mem, s.size = s.mem[:0], 0
	if s.file != nil {
		_ = s.file.Close() // the contents are no longer needed
		s.file = nil
	}
}

// add appends an entity, and reads its stream if it has one.
func (s *spool) add(e *Entity) error {
	s.buf = appendEntity(s.buf[:0], &e.Entity)
	s.buf = binary.AppendUvarint(binary.AppendUvarint(s.buf, uint64(e.Part)), uint64(e.Offset))
	head := uint64(len(s.buf))
	if err := s.write(s.buf); err != nil {
		return err
	}
	body := int64(len(e.Body))
	if e.Stream == nil {
		if err := s.write(e.Body); err != nil {
			return err
		}
	} else {
		var err error
		if body, err = io.Copy(spoolWriter{s}, e.Stream); err != nil {
			return err
		}
	}
	s.buf = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(s.buf[:0], head), uint64(body))
	return s.write(s.buf)
}

type spoolWriter struct{ *spool }

func (w spoolWriter) Write(b []byte) (int, error) { return len(b), w.write(b) }

// write appends b to the bytes in memory or, if these would exceed the limit, moves them and b to
// the file.
func (s *spool) write(b []byte) error {
	s.size += int64(len(b))
	if len(s.mem)+len(b) <= s.limit {
		s.mem = append(s.mem, b...)
		return nil
	}
	if s.file == nil {
		file, err := os.CreateTemp("", ".feedctl-page-*")
		if err != nil {
			return fmt.Errorf("spool page: %w", err)
		}
		s.file = file
		if err := os.Remove(file.Name()); err != nil {
			return fmt.Errorf("spool page: %w", err)
		}
	}
	for _, piece := range [...][]byte{s.mem, b} {
		if _, err := s.file.Write(piece); err != nil {
			return fmt.Errorf("spool page: %w", err)
		}
	}
	s.mem = s.mem[:0]
	return nil
}

// ReadAt reads from the file and then from the bytes in memory, which follow those in the file.
func (s *spool) ReadAt(p []byte, off int64) (n int, err error) {
	start := s.size - int64(len(s.mem)) // of the memory
	if off < start {
		part := p[:min(int64(len(p)), start-off)]
		if n, err = s.file.ReadAt(part, off); err != nil || n == len(p) {
			return n, err
		}
	}
	m, err := bytes.NewReader(s.mem).ReadAt(p[n:], off+int64(n)-start)
	return n + m, err
}

// A record is an entity of a spool without its body.
type record struct {
	feed.Entity
	part   int
	offset int64
	start  int64 // of the record
	body   int64 // where its body starts
	size   int64 // of its body
}

// back returns up to n entities before end, the last one first.
func (s *spool) back(end int64, n int) (records []record, err error) {
	for len(records) < n && end > 0 {
		r, err := s.record(end)
		if err != nil {
			return nil, fmt.Errorf("read spooled page: %w", err)
		}
		records, end = append(records, r), r.start
	}
	return records, nil
}

func (s *spool) record(end int64) (r record, err error) {
	var trailer [trailerSize]byte
	if _, err := s.ReadAt(trailer[:], end-trailerSize); err != nil {
		return r, err
	}
	head := int64(binary.BigEndian.Uint64(trailer[:8]))
	r.size = int64(binary.BigEndian.Uint64(trailer[8:]))
	r.body = end - trailerSize - r.size
	r.start = r.body - head
	encoded := make([]byte, head)
	if _, err := s.ReadAt(encoded, r.start); err != nil {
		return r, err
	}
	var rest []byte
	if r.Entity, rest, err = decodeEntity(encoded); err != nil {
		return r, err
	}
	d := decoder{b: rest}
	r.part, r.offset = int(d.number()), int64(d.number())
	return r, d.err
}

// load sets the body of r: a slice that is valid until the next call, or a stream if it has
// more than whole bytes.
func (s *spool) load(r *record, whole int) error {
	if r.size > int64(whole) {
		r.Stream, r.Size = io.NewSectionReader(s, r.body, r.size), r.size
		return nil
	}
	if int64(cap(s.buf)) < r.size {
		s.buf = make([]byte, r.size)
	}
	r.Body = s.buf[:r.size]
	if r.size == 0 {
		return nil
	}
	if _, err := s.ReadAt(r.Body, r.body); err != nil {
		return fmt.Errorf("read spooled page: %w", err)
	}
	return nil
}
