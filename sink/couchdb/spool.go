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

// A spool keeps what the entities of a batch consist of: in memory up to
// spoolMemory, and beyond in a temporary file without a name.
type spool struct {
	dir    string // "": that of the system
	memory []byte
	file   *os.File // nil if there is none
	size   int64    // of what is in the file
}

// A piece is a run of bytes in a spool; those of the file are counted from
// spoolMemory on.
type piece struct{ at, size int64 }

// put keeps b.
func (s *spool) put(b []byte) (piece, error) {
	if s.file == nil && len(s.memory)+len(b) <= spoolMemory {
		p := piece{int64(len(s.memory)), int64(len(b))}
		s.memory = append(s.memory, b...)
		return p, nil
	}
	return s.copy(bytes.NewReader(b))
}

// copy keeps what is left of r in the file.
func (s *spool) copy(r io.Reader) (piece, error) {
	p := piece{at: spoolMemory + s.size}
	if err := s.create(); err != nil {
		return p, err
	}
	var err error
	p.size, err = io.Copy(io.NewOffsetWriter(s.file, s.size), r)
	s.size += p.size
	if err != nil {
		return p, fmt.Errorf("spool body, after %d bytes: %w", p.size, err)
	}
	return p, nil
}

func (s *spool) create() error {
	if s.file != nil {
		return nil
	}
	file, _, err := content.Spool(s.dir, bytes.NewReader(nil), 0)
	if err != nil {
		return err
	}
	s.file = file
	return nil
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

// reset forgets everything. The space that the file took is free again.
func (s *spool) reset() error {
	s.memory = s.memory[:0]
	return s.close()
}

func (s *spool) close() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	s.file, s.size = nil, 0
	if err != nil {
		return fmt.Errorf("close spool: %w", err)
	}
	return nil
}
