package couchdb

import (
	"context"
	"io"
	"sync"
	"time"
)

// An idleBody is the body of an answer that fails if no byte comes for too long
// while it is waited for.
type idleBody struct {
	src     io.ReadCloser
	what    string // method and URL
	ctx     context.Context
	cancel  context.CancelCauseFunc
	timeout time.Duration
	timer   *time.Timer
	once    sync.Once
}

func (b *idleBody) Read(p []byte) (int, error) {
	if b.timer == nil {
		b.timer = time.AfterFunc(b.timeout, func() { b.cancel(errIdleTimeout) })
	} else {
		b.timer.Reset(b.timeout)
	}
	n, err := b.src.Read(p)
	b.timer.Stop()
	if err == nil || err == io.EOF {
		return n, err
	}
	if cause := context.Cause(b.ctx); cause == context.Canceled || cause == context.DeadlineExceeded {
		return n, cause // of the caller
	} else if cause != nil {
		err = cause
	}
	return n, &transportError{what: b.what, err: err}
}

// Close ends the answer. It may be called at any time, also during a Read.
func (b *idleBody) Close() error {
	b.once.Do(func() {
		b.cancel(nil)
		b.src.Close()
	})
	return nil
}
