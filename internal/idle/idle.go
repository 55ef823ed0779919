// Package idle limits how long the body of an HTTP response may deliver too little data.
package idle

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"
)

// ErrTimeout means that a body delivered too little data within the time limit.
var ErrTimeout = errors.New("too little data within the time limit")

// A Body is the body of a response. It fails if calls of Read wait longer than Timeout, in total, for Least
// bytes or for the end of the body. The time between the calls does not count.
type Body struct {
	Src io.ReadCloser
	// Cancel ends the request, whose context is Context. Close also calls Cancel.
	Context context.Context
	Cancel  context.CancelCauseFunc
	Timeout time.Duration
	Least   int // in bytes; 0 means 1
	// Broken returns the error that Read returns for a cause. The cause is that of Context, such as
	// ErrTimeout, or the error of Src. Broken is not called for io.EOF.
	Broken func(error) error

	timer  *time.Timer
	came   int           // how many of the next Least bytes have been received
	waited time.Duration // time spent waiting for them
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

// Close ends the request and closes its response. It may be called concurrently with Read.
func (b *Body) Close() error {
	b.once.Do(func() {
		b.Cancel(nil)
		b.Src.Close()
	})
	return nil
}
