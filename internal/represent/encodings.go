package represent

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
)

const (
	// maxEncodedShare limits one page to 1/maxEncodedShare of Config.MaxEncoded.
	maxEncodedShare = 4
	// chunkSize is the size of the largest piece of memory for a page, in bytes.
	chunkSize = 128 << 10
)

// errNotEncoded means that there is no memory or no encoder for an encoding: the response has to be
// encoded on its own, or sent without a coding.
var errNotEncoded = errors.New("page was not encoded")

// encodings holds the encoded forms of pages that never change, so that a page is encoded once for
// all requests. Their total size is bounded, including those in use, and no request waits for
// memory.
type encodings struct {
	limit  int64 // bytes; 0 disables them
	coders *coders

	mu    sync.Mutex
	taken int64
	byKey map[encodingKey]*encoding
	idle  list.List // of *encoding that no request holds, the last used first
}

// An encodingKey identifies the bytes of an encoding.
type encodingKey struct {
	sum    string // SHA-256 of the page, in hex
	coding string
}

// An encoding is a page in a content coding.
type encoding struct {
	encodingKey
	ready chan struct{} // closed when the following fields are set
	body  *chunks
	err   error

	// The following fields are guarded by the mutex of encodings.
	taken   int64
	holders int // requests
	element *list.Element
}

func newEncodings(limit int64, c *coders) *encodings {
	return &encodings{limit: limit, coders: c, byKey: make(map[encodingKey]*encoding)}
}

// get returns a page of size bytes, read from body, in a content coding; the caller must release
// the encoding. Of several concurrent requests, the first encodes the page, whether or not its
// client is still there; the others wait for the result. If the error matches errNotEncoded, nothing has been read
// from body.
func (e *encodings) get(ctx context.Context, key encodingKey, size int64, body io.Reader) (*encoding, error) {
	one, begun := e.acquire(key, size)
	if one == nil {
		return nil, errNotEncoded
	}
	if begun {
		e.fill(one, size, body)
	}
	select {
	case <-one.ready:
	case <-ctx.Done():
		e.release(one)
		return nil, fmt.Errorf("wait for the page to be encoded: %w", context.Cause(ctx))
	}
	if one.err == nil {
		return one, nil
	}
	e.release(one)
	if !begun {
		return nil, errNotEncoded // another request could not read the page; this one may
	}
	return nil, one.err
}

// acquire returns an encoding, and holds it for the caller. If begun is true, the encoding is new,
// and the caller has to finish it. acquire returns nil if there is no memory for size bytes.
func (e *encodings) acquire(key encodingKey, size int64) (one *encoding, begun bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if one = e.byKey[key]; one != nil {
		if one.holders++; one.element != nil {
			e.idle.Remove(one.element)
			one.element = nil
		}
		return one, false
	}
	if size > e.limit/maxEncodedShare || !e.makeRoom(size) {
		return nil, false
	}
	one = &encoding{encodingKey: key, ready: make(chan struct{}), taken: size, holders: 1}
	e.byKey[key] = one
	e.taken += size
	return one, true
}

// makeRoom removes idle encodings, the least recently used first, until there is room for size
// bytes. The caller must hold mu.
func (e *encodings) makeRoom(size int64) bool {
	for e.taken+size > e.limit {
		oldest := e.idle.Back()
		if oldest == nil {
			return false
		}
		one := e.idle.Remove(oldest).(*encoding)
		delete(e.byKey, one.encodingKey)
		e.taken -= one.taken
	}
	return true
}

// fill encodes a page and finishes the encoding, even if reading the page panics.
func (e *encodings) fill(one *encoding, size int64, body io.Reader) {
	encoded, err := (*chunks)(nil), errNotEncoded
	defer func() { e.finish(one, encoded, err) }()
	encoded, err = e.encode(one.encodingKey, size, body)
}

// encode returns a page in a content coding, if an encoder is free.
func (e *encodings) encode(key encodingKey, size int64, body io.Reader) (*chunks, error) {
	release, ok := e.coders.tryAcquire()
	if !ok {
		return nil, errNotEncoded
	}
	defer release()
	encoded := &chunks{each: int(min(size, chunkSize))}
	if err := e.coders.write(encoded, key.coding, body, size); err != nil {
		return nil, err
	}
	encoded.trim()
	return encoded, nil
}

// finish completes an encoding that the caller has begun. An encoding that failed is not found
// again.
func (e *encodings) finish(one *encoding, body *chunks, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.taken -= one.taken
	if one.body, one.err = body, err; err == nil {
		one.taken = body.size
		e.taken += one.taken
	} else {
		delete(e.byKey, one.encodingKey)
	}
	close(one.ready)
}

// release ends the use of an encoding.
func (e *encodings) release(one *encoding) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if one.holders--; one.holders == 0 && one.err == nil && e.byKey[one.encodingKey] == one {
		one.element = e.idle.PushFront(one)
	}
}

// chunks holds bytes in memory, and grows without copying them.
type chunks struct {
	each int // capacity of a chunk
	list [][]byte
	size int64
}

// Write implements [io.Writer]. It never fails.
func (c *chunks) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		last := len(c.list) - 1
		if last < 0 || len(c.list[last]) == cap(c.list[last]) {
			c.list = append(c.list, make([]byte, 0, c.each))
			last++
		}
		chunk := c.list[last]
		n := min(len(rest), cap(chunk)-len(chunk))
		c.list[last] = append(chunk, rest[:n]...)
		rest = rest[n:]
	}
	c.size += int64(len(p))
	return len(p), nil
}

// trim frees the memory after the last byte.
func (c *chunks) trim() {
	if last := len(c.list) - 1; last >= 0 {
		c.list[last] = append(make([]byte, 0, len(c.list[last])), c.list[last]...)
	}
}

// WriteTo implements [io.WriterTo]. It may be called concurrently.
func (c *chunks) WriteTo(w io.Writer) (written int64, err error) {
	for _, chunk := range c.list {
		n, err := w.Write(chunk)
		written += int64(n)
		if err != nil {
			return written, err
		}
	}
	return written, nil
}
