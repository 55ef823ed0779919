package consumer

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"
)

// maxRead is how many bytes a readAhead reads from its source at a time: large enough for few
// system calls, and small enough to pass data on early.
const maxRead = 128 << 10

// A readAhead reads a source in its own goroutine and buffers at most len(buf) bytes.
// When the buffer is full, it stops reading.
//
// While held is set, Read blocks until the source has ended with io.EOF, or until the buffer has
// grown to its limit and is full. If the source fails before that, Read returns only the error.
type readAhead struct {
	src     io.ReadCloser
	cancel  func() // makes a blocked Read of src return
	mu      sync.Mutex
	changed sync.Cond
	buf     []byte // a ring buffer with n bytes from r on
	r, n    int
	err     error // final error of src, once it has ended
	closed  bool
	held    bool
	limit   int           // limit of len(buf) while held is set
	given   prefix        // identifies the bytes that Read returned before src ended with io.EOF
	expect  prefix        // identifies bytes with which those returned by Read must begin
	done    chan struct{} // closed when fill has ended
}

// newReadAhead returns a readAhead that reads src into buf once it is started.
func newReadAhead(src io.ReadCloser, cancel func(), buf []byte) *readAhead {
	a := &readAhead{src: src, cancel: cancel, buf: buf, done: make(chan struct{})}
	a.changed.L = &a.mu
	return a
}

// hold makes Read block as described for readAhead, with a buffer of up to limit bytes.
func (a *readAhead) hold(limit int) { a.held, a.limit = true, limit }

func (a *readAhead) start() { go a.fill() }

func (a *readAhead) fill() {
	defer close(a.done)
	for {
		free := a.free()
		if free == nil {
			return
		}
		n, err := a.src.Read(free)
		a.mu.Lock()
		a.n += n
		a.err = err
		a.held = a.held && err != io.EOF
		news := !a.held || err != nil
		a.mu.Unlock()
		if news {
			a.changed.Signal()
		}
		if err != nil {
			return
		}
	}
}

// free waits for free space in the ring and returns it, or nil if a is closed.
func (a *readAhead) free() []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.held && a.n == len(a.buf) {
		a.grow()
	}
	for a.n == len(a.buf) && !a.closed {
		a.changed.Wait()
	}
	if a.closed {
		return nil
	}
	if a.n == 0 {
		a.r = 0 // start over, to reuse memory that is in the processor's cache
	}
	from, to := a.r+a.n, len(a.buf)
	if from >= to {
		from, to = from-to, a.r
	}
	return a.buf[from:min(to, from+maxRead)]
}

// grow enlarges the buffer, from which nothing has been read yet, or ends holding if the buffer
// is at its limit. The caller must hold mu.
func (a *readAhead) grow() {
	if len(a.buf) >= a.limit {
		a.held = false
		a.changed.Signal()
		return
	}
	larger := make([]byte, min(2*len(a.buf), a.limit))
	copy(larger, a.buf[:a.n])
	a.buf = larger
}

// errClosed is returned by Read after Close.
var errClosed = errors.New("page was closed")

func (a *readAhead) Read(p []byte) (int, error) {
	a.mu.Lock()
	for (a.n == 0 || a.held) && a.err == nil && !a.closed {
		a.changed.Wait()
	}
	if a.closed {
		a.mu.Unlock()
		return 0, errClosed
	}
	if a.n == 0 || a.held {
		defer a.mu.Unlock()
		return 0, a.err
	}
	held := a.buf[a.r:min(a.r+a.n, len(a.buf))]
	noted := a.limit > 0 && a.err != io.EOF || a.expect.size > 0
	a.mu.Unlock()
	n := copy(p, held) // fill writes elsewhere
	if noted && !a.given.add(p[:n], a.expect) {
		return 0, fmt.Errorf("%w: its beginning differs from what was read before", ErrDamaged)
	}
	a.mu.Lock()
	a.n -= n
	if a.r += n; a.r == len(a.buf) {
		a.r = 0
	}
	a.mu.Unlock()
	a.changed.Signal()
	return n, nil
}

// take returns all bytes of the source if all of them are in the buffer. Otherwise it returns nil,
// and the caller must use Read. The bytes are valid until Close.
func (a *readAhead) take() []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.held && a.err == nil && !a.closed {
		a.changed.Wait()
	}
	if a.limit == 0 || a.err != io.EOF || a.closed || a.r+a.n > len(a.buf) || a.given.size > 0 || a.expect.size > 0 {
		return nil
	}
	whole := a.buf[a.r : a.r+a.n]
	a.r, a.n = 0, 0
	return whole
}

// A prefix identifies the first bytes of a body.
type prefix struct {
	size int64
	crc  uint32 // CRC-32C
}

// add extends the prefix by b, and reports whether it still agrees with other.
func (p *prefix) add(b []byte, other prefix) bool {
	table := crc32.MakeTable(crc32.Castagnoli)
	if n := other.size - p.size; n > 0 && n <= int64(len(b)) {
		p.crc = crc32.Update(p.crc, table, b[:n])
		p.size += n
		if p.crc != other.crc {
			return false
		}
		b = b[n:]
	}
	p.crc = crc32.Update(p.crc, table, b)
	p.size += int64(len(b))
	return true
}

// whole reports whether the source has ended with io.EOF.
func (a *readAhead) whole() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err == io.EOF
}

// settled reports whether reading has ended, or is waiting for free space.
func (a *readAhead) settled() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err != nil || !a.held && a.n == len(a.buf)
}

// ended waits until the source has ended, or holding ends because the buffer is full. It reports
// whether the source has ended with io.EOF.
func (a *readAhead) ended() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.held && a.err == nil {
		a.changed.Wait()
	}
	return a.err == io.EOF
}

// Close stops reading the source and closes it. It must not be called concurrently
// with Read.
func (a *readAhead) Close() error {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.changed.Signal()
	a.cancel()
	<-a.done // a decoder must not be closed while fill reads from it
	return a.src.Close()
}
