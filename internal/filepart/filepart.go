// Package filepart reads a part of a file. A connection can send the part without copying it
// through user space.
package filepart

import (
	"fmt"
	"io"
	"os"
)

// A Body reads a part of a file. It implements [io.ReadCloser] and [io.WriterTo].
type Body struct {
	file   *os.File
	length int64
	rest   io.LimitedReader // reads the rest of the part from file
}

// New returns a Body of the next length bytes of a file, starting at its current offset.
// Closing the body closes the file. If the file ends early, the error matches
// [io.ErrUnexpectedEOF].
func New(file *os.File, length int64) *Body {
	return &Body{file: file, length: length, rest: io.LimitedReader{R: file, N: length}}
}

// Read implements [io.Reader].
func (b *Body) Read(p []byte) (int, error) {
	n, err := b.rest.Read(p)
	if err == io.EOF {
		err = b.end()
	}
	return n, err
}

// WriteTo implements [io.WriterTo]. It passes an [io.LimitedReader] of the file to w's
// ReadFrom, which can use sendfile.
func (b *Body) WriteTo(w io.Writer) (int64, error) {
	n, err := io.Copy(w, &b.rest)
	if err == nil && b.rest.N > 0 {
		err = b.end()
	}
	return n, err
}

// Rewind seeks to the first byte.
func (b *Body) Rewind() error {
	if b.rest.N == b.length {
		return nil
	}
	if _, err := b.file.Seek(b.rest.N-b.length, io.SeekCurrent); err != nil {
		return fmt.Errorf("read again: %w", err)
	}
	b.rest.N = b.length
	return nil
}

// end returns the error for the end of the file, which may come early.
func (b *Body) end() error {
	if b.rest.N > 0 {
		return fmt.Errorf("read %s: %d bytes are missing: %w", b.file.Name(), b.rest.N, io.ErrUnexpectedEOF)
	}
	return io.EOF
}

// Close implements [io.Closer].
func (b *Body) Close() error { return b.file.Close() }
