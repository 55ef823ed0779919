package storage

import (
	"fmt"
	"io"
	"os"
)

// Bytes returns a Body of the given slices, one after another. They must not
// change until the write has returned.
func Bytes(slices ...[]byte) Body { return bytesBody(slices) }

type bytesBody [][]byte

func (b bytesBody) Size() int64 {
	var size int64
	for _, slice := range b {
		size += int64(len(slice))
	}
	return size
}

func (b bytesBody) Open() (io.ReadCloser, error) {
	return &bytesReader{rest: b}, nil
}

type bytesReader struct {
	rest [][]byte
	done int // bytes read of rest[0]
}

// Read fills p across slices, so that many small ones become few writes.
func (r *bytesReader) Read(p []byte) (n int, err error) {
	for n < len(p) && len(r.rest) > 0 {
		c := copy(p[n:], r.rest[0][r.done:])
		n += c
		r.done += c
		if r.done == len(r.rest[0]) {
			r.rest, r.done = r.rest[1:], 0
		}
	}
	if n == 0 && len(r.rest) == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (r *bytesReader) Close() error { return nil }

// File returns a Body of size bytes of the file at path, from offset on. The
// file is opened when the body is read and must not change until the write has
// returned.
func File(path string, offset, size int64) Body {
	return fileBody{path: path, offset: offset, size: size}
}

type fileBody struct {
	path         string
	offset, size int64
}

func (b fileBody) Size() int64 { return b.size }

func (b fileBody) Open() (io.ReadCloser, error) {
	f, err := os.Open(b.path)
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(f, b.offset, b.size), f}, nil
}

// Concat returns a Body of the given bodies, one after another. One is open at
// a time.
func Concat(bodies ...Body) Body { return concatBody(bodies) }

type concatBody []Body

func (b concatBody) Size() int64 {
	var size int64
	for _, body := range b {
		size += body.Size()
	}
	return size
}

func (b concatBody) Open() (io.ReadCloser, error) {
	return &concatReader{rest: b}, nil
}

type concatReader struct {
	current io.ReadCloser // of the body before rest; nil if none is open
	rest    []Body
}

func (r *concatReader) Read(p []byte) (int, error) {
	for {
		if r.current == nil {
			if len(r.rest) == 0 {
				return 0, io.EOF
			}
			// Each body must have its size: one that is too short must not be
			// made up for by another that is too long.
			opened, err := OpenExact(r.rest[0])
			if err != nil {
				return 0, err
			}
			r.current, r.rest = opened, r.rest[1:]
		}
		n, err := r.current.Read(p)
		if err != io.EOF {
			return n, err
		}
		if err := r.Close(); err != nil || n > 0 {
			return n, err
		}
	}
}

func (r *concatReader) Close() error {
	if r.current == nil {
		return nil
	}
	current := r.current
	r.current = nil
	return current.Close()
}

// OpenExact opens body and checks what it reads: the end comes after exactly
// Size bytes, or else an error that matches [ErrSize]. Drivers read bodies
// through it.
func OpenExact(body Body) (io.ReadCloser, error) {
	size := body.Size()
	if size < 0 {
		return nil, fmt.Errorf("%w: it declares %d bytes", ErrSize, size)
	}
	r, err := body.Open()
	if err != nil {
		return nil, fmt.Errorf("open body: %w", err)
	}
	return &exactReader{ReadCloser: r, size: size, left: size}, nil
}

type exactReader struct {
	io.ReadCloser
	size, left int64
}

func (r *exactReader) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, r.end()
	}
	if int64(len(p)) > r.left {
		p = p[:r.left]
	}
	n, err := r.ReadCloser.Read(p)
	r.left -= int64(n)
	switch {
	case err == nil:
		return n, nil
	case err != io.EOF:
		return n, fmt.Errorf("read body at byte %d of %d: %w", r.size-r.left, r.size, err)
	case r.left > 0:
		return n, fmt.Errorf("%w: it ends after %d of %d bytes", ErrSize, r.size-r.left, r.size)
	}
	return n, io.EOF
}

// end makes sure that the body ends where it should.
func (r *exactReader) end() error {
	var b [1]byte
	for {
		n, err := r.ReadCloser.Read(b[:])
		switch {
		case n > 0:
			return fmt.Errorf("%w: it goes on after %d bytes", ErrSize, r.size)
		case err == io.EOF:
			return io.EOF
		case err != nil:
			return fmt.Errorf("read body at its end: %w", err)
		}
	}
}
