package input

import (
	"bytes"
	"fmt"
	"io"
)

const (
	// blockSize is how many bytes are read at a time.
	blockSize = 64 << 10
	// maxShared is the length, in bytes, up to which a line is returned as a part of its block. While such a
	// line is in use, its whole block stays in memory.
	maxShared = blockSize / 8
	// maxEmptyReads is how many times in a row a reader may return no bytes and no error.
	maxEmptyReads = 100
)

// A lineReader reads lines, which remain valid. It allocates whole blocks for short lines, and exactly as
// much memory as is needed for a long line.
type lineReader struct {
	r        io.Reader
	max      int          // maximum length of a line
	lengthy  func() error // or nil
	block    []byte
	from, to int      // block[from:to] has not been returned yet
	shared   bool     // lines that were returned are parts of the block
	err      error    // of r
	long     [][]byte // earlier blocks of the line that is being read
	spare    [][]byte // blocks to use again
}

// next returns a line without its LF or CRLF, and io.EOF after the last. The last
// line need not end in a line break.
func (l *lineReader) next() ([]byte, error) {
	for before := 0; ; {
		piece, err := l.piece()
		size := before + len(piece)
		if size > l.max+len("\r\n") {
			return nil, invalid(fmt.Errorf("%w of %d bytes", ErrLineTooLong, l.max))
		}
		if l.lengthy != nil && before <= LengthyLine && size > LengthyLine {
			if err := l.lengthy(); err != nil {
				return nil, err
			}
		}
		switch {
		case bytes.HasSuffix(piece, []byte("\n")):
		case err == nil:
			l.keep()
			before = size
			continue
		case err != io.EOF || size == 0:
			return nil, err
		}
		line := bytes.TrimSuffix(bytes.TrimSuffix(l.join(piece), []byte("\n")), []byte("\r"))
		if len(line) > l.max {
			return nil, invalid(fmt.Errorf("%w of %d bytes", ErrLineTooLong, l.max))
		}
		return line, nil
	}
}

// keep adds the block to long: all of it belongs to the line that is being read.
func (l *lineReader) keep() {
	l.long = append(l.long, l.block)
	l.block, l.from, l.to = nil, 0, 0
}

// join returns a whole line, of which piece is the last part.
func (l *lineReader) join(piece []byte) []byte {
	if len(l.long) == 0 && len(piece) <= maxShared {
		l.shared = true
		return piece
	}
	line := bytes.Join(append(l.long, piece), nil)
	l.spare, l.long = append(l.spare, l.long...), l.long[:0]
	return line
}

// piece returns the rest of the line, with its line break. If a whole block has no line break, it returns the
// block. If there is no line break before the end of the input or an error, it returns what is left, with
// io.EOF or the error. The result is valid until the next call, unless shared is set.
func (l *lineReader) piece() ([]byte, error) {
	for searched := 0; ; {
		if i := bytes.IndexByte(l.block[l.from+searched:l.to], '\n'); i >= 0 {
			return l.cut(searched + i + len("\n")), nil
		}
		searched = l.to - l.from
		if l.err != nil || searched == blockSize {
			return l.cut(searched), l.err
		}
		l.fill()
	}
}

func (l *lineReader) cut(n int) []byte {
	start := l.from
	l.from += n
	return l.block[start:l.from:l.from]
}

// fill reads more of the input. If the block is full, it begins another.
func (l *lineReader) fill() {
	if l.to == len(l.block) {
		rest := l.block[l.from:]
		if l.shared || l.block == nil {
			l.block, l.shared = l.newBlock(), false
		}
		l.from, l.to = 0, copy(l.block, rest)
	}
	for range maxEmptyReads {
		n, err := l.r.Read(l.block[l.to:])
		l.to, l.err = l.to+n, err
		if n > 0 || err != nil {
			return
		}
	}
	l.err = io.ErrNoProgress
}

func (l *lineReader) newBlock() []byte {
	n := len(l.spare)
	if n == 0 {
		return make([]byte, blockSize)
	}
	block := l.spare[n-1]
	l.spare = l.spare[:n-1]
	return block
}
