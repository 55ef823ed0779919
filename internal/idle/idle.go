// Package idle limits how long the body of an HTTP answer may bring nothing, or next
// to nothing.
package idle

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"
)

// ErrTimeout: a body brought too little for too long while it was waited for.
var ErrTimeout = errors.New("too little data within the time limit")

// A Body is the body of an answer that fails if, while it is waited for, fewer than
// Least bytes come within Timeout and it does not end. The time between two Reads does
// not count.
type Body struct {
	Src io.ReadCloser
	// Cancel ends the request, whose context is Context. Close calls it too.
	Context context.Context
	Cancel  context.CancelCauseFunc
	Timeout time.Duration
	Least   int // 0 means 1
	// Broken makes the error of a Read out of why it failed: the cause of Context's
	// end, such as ErrTimeout, or what Src says. It does not see io.EOF.
	Broken func(error) error

	timer  *time.Timer
	came   int           // bytes of those that are due
	waited time.Duration // for them
	once   sync.Once
}

// Read implements [io.Reader].
func (b *Body) Read(p []byte) (int, error) {
	if b.timer == nil {
		b.timer = time.AfterFunc(b.Timeout, func() { b.Cancel(ErrTimeout) })
	} else {
		b.timer.Reset(b.Timeout - b.waited)
	}
	begun := time.Now()
	n, err := b.Src.Read(p)
	b.timer.Stop()
	b.waited += time.Since(begun)
	if b.came += n; b.came >= max(1, b.Least) {
		b.came, b.waited = 0, 0
	}
	if err == nil || err == io.EOF {
		return n, err
	}
	if cause := context.Cause(b.Context); cause != nil {
		err = cause
	}
	return n, b.Broken(err)
}

// Close ends the answer. It may be called at any time, also during a Read.
func (b *Body) Close() error {
	b.once.Do(func() {
		b.Cancel(nil)
		b.Src.Close()
	})
	return nil
}
