package couchdb

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/feedctl/feedctl/internal/origins"
)

// lateAfter is the delay after which a missing response is logged and a GET is sent again.
const lateAfter = 10 * time.Second

// hedged reports whether the request is sent again when its response is late. The response
// to _changes or _db_updates may begin only with the first row.
func (q *Request) hedged() bool {
	return q.Method == http.MethodGet && q.Path != "_changes" && q.Path != updatesPath
}

// hedge sends a request, and if there is no response by the time late receives, sends it
// again on another connection: a CouchDB cluster does not respond while it waits for a failed
// node. It returns the first response and cancels the other request. Closing the body of the
// response must end the context of r.
func (db *DB) hedge(r *http.Request, late <-chan struct{}) (*http.Response, error) {
	type answer struct {
		of   int
		resp *http.Response
		err  error
	}
	answers := make(chan answer, 2)
	var cancel [2]context.CancelFunc
	sent := 0
	send := func() {
		of := sent
		ctx, end := context.WithCancel(r.Context())
		cancel[of], sent = end, sent+1
		go func() {
			if of > 0 {
				turn, err := db.config.Limits.limiter.Begin(ctx, db.host, r.Method, origins.MaxRetryAfter)
				if err != nil {
					answers <- answer{of, nil, err}
					return
				}
				defer turn.Failed()
			}
			resp, err := db.http.Do(r.Clone(ctx)) //nolint:bodyclose // the caller closes it
			answers <- answer{of, resp, err}
		}()
	}
	send()
	var first answer
	select {
	case first = <-answers:
		return first.resp, first.err
	case <-late:
	}
	db.http.CloseIdleConnections() // they may be broken, too
	send()
	if first = <-answers; first.err != nil {
		first = <-answers
		return first.resp, first.err
	}
	cancel[1-first.of]()
	if other := <-answers; other.err == nil {
		other.resp.Body.Close()
	}
	return first.resp, nil
}

// A deadline cancels a request whose response does not begin in time. Each read of the
// request body extends it, because the response cannot begin before.
type deadline struct {
	limit   time.Duration
	mu      sync.Mutex
	timer   *time.Timer
	late    *time.Timer
	stopped bool
}

func newDeadline(limit time.Duration, late, cancel func()) *deadline {
	return &deadline{limit: limit, timer: time.AfterFunc(limit, cancel), late: time.AfterFunc(lateAfter, late)}
}

// extend restarts the timers.
func (d *deadline) extend() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.stopped {
		d.timer.Reset(d.limit)
		d.late.Reset(lateAfter)
	}
}

// stop stops the timers for good, even if the transport continues to read the
// body. It returns false if the request has already been cancelled.
func (d *deadline) stop() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stopped = true
	d.late.Stop()
	return d.timer.Stop()
}

// An upload is a request body that extends a deadline.
type upload struct {
	io.ReadCloser
	deadline *deadline
}

func (u *upload) Read(b []byte) (int, error) {
	n, err := u.ReadCloser.Read(b)
	u.deadline.extend()
	return n, err
}
