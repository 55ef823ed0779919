package postgres

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	"github.com/feedctl/feedctl/sink/internal/content"
)

// held is the maximum number of bytes of a batch that are held in memory.
const held = 32 << 20

// batchSize is the memory, in bytes, that the rows of a batch of default size need.
const batchSize = 9 << 20

// A spool holds the rows of a batch in COPY's binary format (PostgreSQL documentation,
// COPY, "Binary Format"). Each row is either in memory or in a temporary file.
type spool struct {
	mem     []byte // the rows that follow those in the file
	file    *os.File
	size    int64 // of the file
	entries []entry
}

type entry struct {
	start, end int64
	replaced   bool // by a later row with the same key
	removed    bool // it is a deletion
}

func (s *spool) reset() error {
	s.mem, s.entries, s.size = s.mem[:0], s.entries[:0], 0
	if s.file == nil {
		return nil
	}
	file := s.file
	s.file = nil
	return file.Close()
}

// end returns the offset after the last row.
func (s *spool) end() int64 { return s.size + int64(len(s.mem)) }

// begin begins a row with the given number of fields.
func (s *spool) begin(fields int) {
	s.entries = append(s.entries, entry{start: s.end()})
	s.mem = binary.BigEndian.AppendUint16(s.mem, uint16(fields))
}

func (s *spool) null() { s.mem = append(s.mem, 0xff, 0xff, 0xff, 0xff) }

func (s *spool) field(value []byte) {
	s.mem = append(binary.BigEndian.AppendUint32(s.mem, uint32(len(value))), value...)
}

func (s *spool) text(value string) {
	s.mem = append(binary.BigEndian.AppendUint32(s.mem, uint32(len(value))), value...)
}

func (s *spool) int32(value int32) {
	s.mem = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(s.mem, 4), uint32(value))
}

func (s *spool) int64(value int64) {
	s.mem = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(s.mem, 8), uint64(value))
}

// stream appends a field of size bytes, or of unknown size if size is -1. It reads at most limit+1
// bytes, and returns how many it read.
func (s *spool) stream(r io.Reader, size, limit int64) (int64, error) {
	s.mem = append(s.mem, 0, 0, 0, 0)
	if err := s.flush(); err != nil {
		return 0, err
	}
	at := s.size
	// Only Write is visible to io.Copy, which would otherwise let the file allocate a buffer.
	n, err := io.Copy(struct{ io.Writer }{s.file}, io.LimitReader(r, limit+1))
	s.size += n
	if err != nil {
		return n, fmt.Errorf("spool body, after %d bytes: %w", n, err)
	}
	if err := content.CheckSize(size, n); err != nil {
		return n, err
	}
	if _, err := s.file.WriteAt(binary.BigEndian.AppendUint32(nil, uint32(n)), at-4); err != nil {
		return n, fmt.Errorf("spool body: %w", err)
	}
	return n, nil
}

func (s *spool) finish() error {
	s.entries[len(s.entries)-1].end = s.end()
	if len(s.mem) >= pieceSize && cap(s.mem) < batchSize {
		// Growing in steps would leave about the same amount of memory as garbage.
		s.mem = slices.Grow(s.mem, batchSize-len(s.mem))
	}
	if len(s.mem) < held {
		return nil
	}
	return s.flush()
}

// flush moves the rows in memory to the file, which is unlinked and so is deleted when it
// is closed.
func (s *spool) flush() error {
	if s.file == nil {
		file, err := os.CreateTemp("", ".feedctl-batch-*")
		if err != nil {
			return fmt.Errorf("spool batch: %w", err)
		}
		s.file = file
		if err := os.Remove(file.Name()); err != nil {
			return fmt.Errorf("spool batch: %w", err)
		}
	}
	n, err := s.file.Write(s.mem)
	s.size += int64(n)
	if err != nil {
		return fmt.Errorf("spool batch: %w", err)
	}
	s.mem = s.mem[:0]
	return nil
}

// read returns the fields of a row; nil is null.
func (s *spool) read(e entry) ([][]byte, error) {
	row := make([]byte, e.end-e.start)
	if err := s.readAt(row, e.start); err != nil {
		return nil, err
	}
	fields := make([][]byte, binary.BigEndian.Uint16(row))
	row = row[2:]
	for i := range fields {
		n := int32(binary.BigEndian.Uint32(row))
		row = row[4:]
		if n >= 0 {
			fields[i], row = row[:n:n], row[n:]
		}
	}
	return fields, nil
}

// readAt fills p from an offset. The range must not cross from the file to memory.
func (s *spool) readAt(p []byte, offset int64) error {
	if offset >= s.size {
		copy(p, s.mem[offset-s.size:])
		return nil
	}
	if _, err := s.file.ReadAt(p, offset); err != nil {
		return fmt.Errorf("read spooled batch: %w", err)
	}
	return nil
}

// readSome reads from a range, either from the file or from memory.
func (s *spool) readSome(p []byte, start, end int64) (int, error) {
	if start < s.size {
		end = min(end, s.size)
	}
	n := int(min(int64(len(p)), end-start))
	if err := s.readAt(p[:n], start); err != nil {
		return 0, err
	}
	return n, nil
}

func (s *spool) replaced() (numbers []int32) {
	for n, e := range s.entries {
		if e.replaced {
			numbers = append(numbers, int32(n))
		}
	}
	return numbers
}

var (
	copyHeader  = []byte("PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00")
	copyTrailer = []byte{0xff, 0xff}
)

// rows returns the data for COPY: all rows, or only those that were not replaced.
func (s *spool) rows(all bool) *rowReader {
	r := &rowReader{s: s, head: copyHeader}
	for _, e := range s.entries {
		switch last := len(r.spans) - 1; {
		case e.replaced && !all:
		case last >= 0 && r.spans[last].end == e.start:
			r.spans[last].end = e.end
		default:
			r.spans = append(r.spans, entry{start: e.start, end: e.end})
		}
	}
	return r
}

// A rowReader reads rows of a spool. It fills the buffer of each Read if possible, since pgx sends
// one message for each Read.
type rowReader struct {
	s     *spool
	head  []byte // bytes to return before the next span
	spans []entry
	ended bool // head is the last

	mu      sync.Mutex
	stopped bool
}

// stop makes further calls of Read fail: a goroutine of a broken connection may still read after
// its COPY has ended. After stop has returned, the spool can be reset.
func (r *rowReader) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
}

func (r *rowReader) Read(p []byte) (n int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return 0, os.ErrClosed
	}
	for n < len(p) {
		switch {
		case len(r.head) > 0:
			m := copy(p[n:], r.head)
			r.head = r.head[m:]
			n += m
		case len(r.spans) > 0:
			m, err := r.readSpan(p[n:])
			n += m
			if err != nil {
				return n, err
			}
		case !r.ended:
			r.head, r.ended = copyTrailer, true
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
	return n, nil
}

func (r *rowReader) readSpan(p []byte) (int, error) {
	span := &r.spans[0]
	n, err := r.s.readSome(p, span.start, span.end)
	if span.start += int64(n); span.start == span.end {
		r.spans = r.spans[1:]
	}
	return n, err
}
