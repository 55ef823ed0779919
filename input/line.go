package input

import (
	"bytes"
	"fmt"
	"io"
)

const (
	// blockSize is how many bytes are read at a time.
	blockSize = 64 << 10
	// maxShared is the longest line that is a part of its block, in bytes. A line that is kept
	// keeps its block in memory.
	maxShared = blockSize / 8
	// maxEmptyReads is how often in a row a reader may return no bytes and no error.
	maxEmptyReads = 100
)

// A lineReader reads lines, which remain valid. It allocates memory for whole blocks of
// short lines.
type lineReader struct {
	r        io.Reader
	max      int          // length of a line
	lengthy  func() error // or nil
	block    []byte
	from, to int   // block[from:to] is not returned yet
	shared   bool  // lines that were returned are parts of the block
	err      error // of r
}

// next returns a line without its LF or CRLF, and io.EOF after the last. The last
// line need not end in a line break.
func (l *lineReader) next() ([]byte, error) {
	var line []byte
	for {
		piece, err := l.piece()
		before := len(line)
		if before+len(piece) > l.max+len("\r\n") {
			return nil, invalid(fmt.Errorf("%w of %d bytes", ErrLineTooLong, l.max))
		}
		if l.lengthy != nil && before <= LengthyLine && before+len(piece) > LengthyLine {
			if err := l.lengthy(); err != nil {
				return nil, err
			}
		}
		ended := bytes.HasSuffix(piece, []byte("\n"))
		if before == 0 && len(piece) <= maxShared && (ended || err != nil) {
			line, l.shared = piece, true
		} else {
			line = append(line, piece...)
		}
		switch {
		case ended:
		case err == nil:
			continue
		case err != io.EOF || len(line) == 0:
			return nil, err
		}
		line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
		if len(line) > l.max {
			return nil, invalid(fmt.Errorf("%w of %d bytes", ErrLineTooLong, l.max))
		}
		return line, nil
	}
}

// piece returns what is left up to a line break. If there is none in a whole block, it returns
// the block, and if there is none before the end of the input or an error, the rest with that.
// It is valid until the next call, unless shared is set.
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

// fill reads more of the input, into another block if this one is full.
func (l *lineReader) fill() {
	if l.to == len(l.block) {
		rest := l.block[l.from:]
		if l.shared || l.block == nil {
			l.block, l.shared = make([]byte, blockSize), false
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
