package inprocess

import (
	"bytes"
	"io"
	"sync"
)

// A handover is a pipe from a handler to the reader of its response. Unlike with [io.Pipe], the
// reader reads directly from the [io.Reader] that the handler sends, without a copy and without
// waking the handler for each piece.
type handover struct {
	mu      sync.Mutex
	changed sync.Cond
	src     io.Reader // what the handler is sending; nil between its calls
	busy    bool      // whether src is being read
	sent    int64     // how many bytes of src were read
	failed  error     // error of src
	end     error     // returned by Read once the pipe is closed
}

func newHandover() *handover {
	h := new(handover)
	h.changed.L = &h.mu
	return h
}

// Write implements [io.Writer].
func (h *handover) Write(p []byte) (int, error) {
	n, err := h.ReadFrom(bytes.NewReader(p))
	return int(n), err
}

// ReadFrom implements [io.ReaderFrom]. It returns when src ends or the pipe is closed, but never
// while src is being read. There must be only one call at a time.
func (h *handover) ReadFrom(src io.Reader) (int64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.src, h.sent, h.failed = src, 0, nil
	h.changed.Broadcast()
	for h.src != nil && h.end == nil || h.busy {
		h.changed.Wait()
	}
	if h.src == nil {
		return h.sent, h.failed
	}
	h.src = nil
	return h.sent, io.ErrClosedPipe
}

// Read implements [io.Reader]. There must be only one call at a time.
func (h *handover) Read(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		for h.src == nil && h.end == nil {
			h.changed.Wait()
		}
		if h.end != nil {
			return 0, h.end
		}
		n, err := h.readSource(p)
		if n > 0 || err == nil {
			return n, nil
		}
	}
}

// readSource reads once from src. The caller holds mu, which is released during the read.
func (h *handover) readSource(p []byte) (int, error) {
	src := h.src
	h.busy = true
	h.mu.Unlock()
	n, err := src.Read(p)
	if data, ok := src.(*bytes.Reader); ok && data.Len() == 0 && err == nil {
		err = io.EOF // lets Write return as soon as all bytes are read, not only at the next Read
	}
	h.mu.Lock()
	h.busy = false
	h.sent += int64(n)
	if err != nil {
		h.src = nil
		if err != io.EOF {
			h.failed = err
		}
	}
	if err != nil || h.end != nil {
		h.changed.Broadcast()
	}
	return n, err
}

// close closes the pipe for both sides. Further calls of Read return err, or [io.EOF] if
// err is nil. Closing it again has no effect.
func (h *handover) close(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.end != nil {
		return
	}
	if h.end = err; err == nil {
		h.end = io.EOF
	}
	h.changed.Broadcast()
}
