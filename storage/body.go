package storage

import (
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"os"
	"slices"
)

// Bytes returns a Body that is the concatenation of the given slices. They must not
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

func (b bytesBody) Open() (io.ReadCloser, error) { return b.OpenFrom(0) }

// OpenFrom implements offsetBody.
func (b bytesBody) OpenFrom(offset int64) (io.ReadCloser, error) {
	for len(b) > 0 && offset >= int64(len(b[0])) {
		offset -= int64(len(b[0]))
		b = b[1:]
	}
	return &bytesReader{rest: b, done: int(offset)}, nil
}

type bytesReader struct {
	rest [][]byte
	done int // bytes read of rest[0]
}

// Read fills p from several slices, so that many small slices become few writes.
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

// A Digested is a Body whose SHA-256 is known: a driver that sends the digest need
// not read the body first.
type Digested interface {
	Body
	// SHA256 returns the state of the hash after all bytes of the body. The caller
	// must not write to it.
	SHA256() hash.Cloner
}

// WithSHA256 returns a body together with the state of its SHA-256. Neither may
// change until the write has returned.
func WithSHA256(body Body, state hash.Cloner) Digested { return digestedBody{body, state} }

type digestedBody struct {
	Body
	state hash.Cloner
}

func (b digestedBody) SHA256() hash.Cloner { return b.state }

// A Loaded is the Body of an [Object] if the body is in memory and the driver has computed its SHA-256.
// A reader may use the bytes in place until it closes the body, and can compare the SHA-256 with an
// expected one without computing it again.
type Loaded interface {
	io.ReadCloser
	// Bytes returns all bytes of the body, which must not be changed. After the call, the memory counts
	// toward the limits of the caller, and no longer toward those of the driver.
	Bytes() []byte
	// SHA256 returns the digest of Bytes.
	SHA256() [sha256.Size]byte
}

// AsLoaded returns the body of an [Object] as a [Loaded] if it is one.
func AsLoaded(body io.ReadCloser) (Loaded, bool) {
	l, ok := body.(Loaded)
	return l, ok
}

// Last marks a body as the last one written to its object: no append will follow, so a driver need not
// cache the object for further appends.
func Last(body Body) Body { return lastBody{body} }

// IsLast reports whether the body was returned by [Last].
func IsLast(body Body) bool {
	_, ok := body.(lastBody)
	return ok
}

type lastBody struct{ Body }

// OpenFrom implements offsetBody.
func (b lastBody) OpenFrom(offset int64) (io.ReadCloser, error) { return OpenFrom(b.Body, offset) }

// File returns a Body of size bytes of the file at path, starting at offset. The
// file is opened when the body is read. It must not change until the write has
// returned.
func File(path string, offset, size int64) Body {
	return fileBody{path: path, offset: offset, size: size}
}

type fileBody struct {
	path         string
	offset, size int64
}

func (b fileBody) Size() int64 { return b.size }

func (b fileBody) Open() (io.ReadCloser, error) { return b.OpenFrom(0) }

// OpenFrom implements offsetBody.
func (b fileBody) OpenFrom(offset int64) (io.ReadCloser, error) {
	f, err := os.Open(b.path)
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(f, b.offset+offset, b.size-offset), f}, nil
}

// Concat returns a Body that is the concatenation of the given bodies. Only one is
// open at a time.
func Concat(bodies ...Body) Body { return concatBody(bodies) }

type concatBody []Body

func (b concatBody) Size() int64 {
	var size int64
	for _, body := range b {
		size += body.Size()
	}
	return size
}

func (b concatBody) Open() (io.ReadCloser, error) { return &concatReader{rest: b}, nil }

// OpenFrom implements offsetBody.
func (b concatBody) OpenFrom(offset int64) (io.ReadCloser, error) {
	for len(b) > 0 && offset >= b[0].Size() {
		offset -= b[0].Size()
		b = b[1:]
	}
	if offset == 0 {
		return b.Open()
	}
	first, err := OpenFrom(b[0], offset)
	if err != nil {
		return nil, err
	}
	return &concatReader{current: first, rest: b[1:]}, nil
}

type concatReader struct {
	current io.ReadCloser // of the body before rest; nil if not open
	rest    []Body
}

func (r *concatReader) Read(p []byte) (int, error) {
	for {
		if r.current == nil {
			if len(r.rest) == 0 {
				return 0, io.EOF
			}
			// Check the size of each body: a body that is too short must not be compensated for by
			// another that is too long.
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

// An offsetBody is a Body that can be opened in the middle.
type offsetBody interface {
	OpenFrom(offset int64) (io.ReadCloser, error)
}

// OpenFrom opens body at an offset, which is at most the Size of body. If body has no method
// OpenFrom(offset int64) (io.ReadCloser, error), the bytes up to the offset are read and discarded.
func OpenFrom(body Body, offset int64) (io.ReadCloser, error) {
	if b, ok := body.(offsetBody); ok {
		return b.OpenFrom(offset)
	}
	r, err := body.Open()
	if err != nil {
		return nil, err
	}
	if _, err := io.CopyN(io.Discard, r, offset); err != nil {
		r.Close()
		return nil, fmt.Errorf("read body up to byte %d: %w", offset, err)
	}
	return r, nil
}

// CanOpenFrom reports whether [OpenFrom] can open body without reading the bytes up to the offset.
func CanOpenFrom(body Body) bool {
	switch b := body.(type) {
	case concatBody:
		return !slices.ContainsFunc(b, func(part Body) bool { return !CanOpenFrom(part) })
	case lastBody:
		return CanOpenFrom(b.Body)
	}
	_, ok := body.(offsetBody)
	return ok
}

// OpenExact opens body and returns a reader that ends after exactly Size bytes, or
// returns an error that matches [ErrSize] if the body is shorter or longer. Drivers use it to read
// bodies.
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

// end checks that the body ends after size bytes.
func (r *exactReader) end() error {
	var b [1]byte
	for {
		n, err := r.ReadCloser.Read(b[:])
		switch {
		case n > 0:
			return fmt.Errorf("%w: it continues after %d bytes", ErrSize, r.size)
		case err == io.EOF:
			return io.EOF
		case err != nil:
			return fmt.Errorf("read body at its end: %w", err)
		}
	}
}
