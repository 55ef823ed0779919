// Package spool holds the contents of the entities of a batch until it is committed.
package spool

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"github.com/feedctl/feedctl/sink/internal/content"
)

// inMemory is how many bytes of a batch are held in memory.
const inMemory = 4 << 20

// A Spool holds the contents of the entities of a batch: in memory up to inMemory,
// and beyond that in an unlinked temporary file.
type Spool struct {
	Dir    string // of the file; "": os.TempDir
	memory []byte
	file   *os.File // nil if there is none
	size   int64    // of the file's contents
}

// A Piece is a range of bytes in a Spool. Offsets in the file begin at inMemory.
type Piece struct{ At, Size int64 }

// Put stores b.
func (s *Spool) Put(b []byte) (Piece, error) {
	if s.file == nil && len(s.memory)+len(b) <= inMemory {
		p := Piece{int64(len(s.memory)), int64(len(b))}
		s.memory = append(s.memory, b...)
		return p, nil
	}
	return s.Copy(bytes.NewReader(b))
}

// Copy stores the rest of r in the file.
func (s *Spool) Copy(r io.Reader) (Piece, error) {
	p := Piece{At: inMemory + s.size}
	var err error
	if s.file == nil {
		if s.file, _, err = content.Spool(s.Dir, bytes.NewReader(nil), 0); err != nil {
			return p, err
		}
	}
	p.Size, err = io.Copy(io.NewOffsetWriter(s.file, s.size), r)
	s.size += p.Size
	if err != nil {
		return p, fmt.Errorf("spool body, after %d bytes: %w", p.Size, err)
	}
	return p, nil
}

// Reader returns a new reader of p.
func (s *Spool) Reader(p Piece) io.Reader {
	if p.At < inMemory {
		return bytes.NewReader(s.memory[p.At : p.At+p.Size])
	}
	return io.NewSectionReader(s.file, p.At-inMemory, p.Size)
}

// Append appends the bytes of p to dst.
func (s *Spool) Append(dst []byte, p Piece) ([]byte, error) {
	if p.At < inMemory {
		return append(dst, s.memory[p.At:p.At+p.Size]...), nil
	}
	n := len(dst)
	dst = append(dst, make([]byte, p.Size)...)
	if _, err := s.file.ReadAt(dst[n:], p.At-inMemory); err != nil {
		return dst[:n], fmt.Errorf("read spooled body: %w", err)
	}
	return dst, nil
}

// Reset drops all contents and removes the file.
func (s *Spool) Reset() (err error) {
	if s.file != nil {
		if err = s.file.Close(); err != nil {
			err = fmt.Errorf("close spool: %w", err)
		}
	}
	s.memory, s.file, s.size = s.memory[:0], nil, 0
	return err
}
