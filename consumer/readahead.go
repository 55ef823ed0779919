package consumer

import (
	"errors"
	"io"
	"sync"
)

// maxRead is how many bytes a readAhead asks its source for at a time: enough
// for few system calls, and little enough to hand on early.
const maxRead = 128 << 10

// A readAhead reads a source in a goroutine of its own and holds at most
// len(buf) bytes that were not asked for yet. When it is full, the source has
// to wait.
type readAhead struct {
	src     io.ReadCloser
	cancel  func() // makes a Read of src return
	mu      sync.Mutex
	changed sync.Cond
	buf     []byte // a ring: n bytes from r on
	r, n    int
	err     error // of src, once it is used up
	closed  bool
	done    chan struct{} // closed when fill has ended
}

// newReadAhead starts to read src into buf.
func newReadAhead(src io.ReadCloser, cancel func(), buf []byte) *readAhead {
	a := &readAhead{src: src, cancel: cancel, buf: buf, done: make(chan struct{})}
	a.changed.L = &a.mu
	go a.fill()
	return a
}

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
		a.mu.Unlock()
		a.changed.Signal()
		if err != nil {
			return
		}
	}
}

// free waits for room in the ring and returns it; nil if a was closed.
func (a *readAhead) free() []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.n == len(a.buf) && !a.closed {
		a.changed.Wait()
	}
	if a.closed {
		return nil
	}
	if a.n == 0 {
		a.r = 0 // stay where the processor's cache is warm
	}
	from, to := a.r+a.n, len(a.buf)
	if from >= to {
		from, to = from-to, a.r
	}
	return a.buf[from:min(to, from+maxRead)]
}

// errClosed is the error of reading a closed readAhead.
var errClosed = errors.New("page was closed")

func (a *readAhead) Read(p []byte) (int, error) {
	a.mu.Lock()
	for a.n == 0 && a.err == nil && !a.closed {
		a.changed.Wait()
	}
	if a.closed {
		a.mu.Unlock()
		return 0, errClosed
	}
	if a.n == 0 {
		defer a.mu.Unlock()
		return 0, a.err
	}
	held := a.buf[a.r:min(a.r+a.n, len(a.buf))]
	a.mu.Unlock()
	n := copy(p, held) // fill writes elsewhere
	a.mu.Lock()
	a.n -= n
	if a.r += n; a.r == len(a.buf) {
		a.r = 0
	}
	a.mu.Unlock()
	a.changed.Signal()
	return n, nil
}

// Close ends the reading of the source and closes it. It must not be called
// while Read is running.
func (a *readAhead) Close() error {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.changed.Signal()
	a.cancel()
	<-a.done // a decoder must not be closed while it is read
	return a.src.Close()
}
