package couchdb

import (
	"io"
	"sync"
	"time"
)

// A patience cancels a request to which no answer begins for too long. While the
// request's body is read on, the answer cannot begin yet: so it is counted from the
// last byte.
type patience struct {
	limit time.Duration
	mu    sync.Mutex
	timer *time.Timer
	late  *time.Timer
	ended bool
}

func newPatience(limit time.Duration, late, cancel func()) *patience {
	return &patience{limit: limit, timer: time.AfterFunc(limit, cancel), late: time.AfterFunc(lateAfter, late)}
}

// restart counts from now on.
func (p *patience) restart() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		p.timer.Reset(p.limit)
		p.late.Reset(lateAfter)
	}
}

// end reports whether the request was not cancelled, and will not be. What the
// transport still reads of the body does not matter then.
func (p *patience) end() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	p.late.Stop()
	return p.timer.Stop()
}

// An upload is a request's body.
type upload struct {
	io.ReadCloser
	patience *patience
}

func (u *upload) Read(b []byte) (int, error) {
	n, err := u.ReadCloser.Read(b)
	u.patience.restart()
	return n, err
}
