package couchdb

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"github.com/feedctl/feedctl/sink/internal/content"
)

// spoolMemory is how many bytes of a batch are held in memory.
const spoolMemory = 4 << 20

// A spool holds the contents of the entities of a batch: in memory up to spoolMemory,
// and beyond that in an unlinked temporary file.
type spool struct {
	dir    string // of the file; "": os.TempDir
	memory []byte
	file   *os.File // nil if there is none
	size   int64    // of the file's contents
}

// A piece is a range of bytes in a spool. Offsets in the file begin at spoolMemory.
type piece struct{ at, size int64 }

// put stores b.
func (s *spool) put(b []byte) (piece, error) {
	if s.file == nil && len(s.memory)+len(b) <= spoolMemory {
		p := piece{int64(len(s.memory)), int64(len(b))}
		s.memory = append(s.memory, b...)
		return p, nil
	}
	return s.copy(bytes.NewReader(b))
}

// copy stores the rest of r in the file.
func (s *spool) copy(r io.Reader) (piece, error) {
	p := piece{at: spoolMemory + s.size}
	var err error
	if s.file == nil {
		if s.file, _, err = content.Spool(s.dir, bytes.NewReader(nil), 0); err != nil {
			return p, err
		}
	}
	p.size, err = io.Copy(io.NewOffsetWriter(s.file, s.size), r)
	s.size += p.size
	if err != nil {
		return p, fmt.Errorf("spool body, after %d bytes: %w", p.size, err)
	}
	return p, nil
}

// reader returns a new reader of p.
func (s *spool) reader(p piece) io.Reader {
	if p.at < spoolMemory {
		return bytes.NewReader(s.memory[p.at : p.at+p.size])
	}
	return io.NewSectionReader(s.file, p.at-spoolMemory, p.size)
}

// append appends the bytes of p to dst.
func (s *spool) append(dst []byte, p piece) ([]byte, error) {
	if p.at < spoolMemory {
		return append(dst, s.memory[p.at:p.at+p.size]...), nil
	}
	n := len(dst)
	dst = append(dst, make([]byte, p.size)...)
	if _, err := s.file.ReadAt(dst[n:], p.at-spoolMemory); err != nil {
		return dst[:n], fmt.Errorf("read spooled body: %w", err)
	}
	return dst, nil
}

// reset drops all contents and removes the file.
func (s *spool) reset() (err error) {
	if s.file != nil {
		if err = s.file.Close(); err != nil {
			err = fmt.Errorf("close spool: %w", err)
		}
	}
	s.memory, s.file, s.size = s.memory[:0], nil, 0
	return err
}
