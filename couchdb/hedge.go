package couchdb

import (
	"context"
	"net/http"
	"time"
)

// lateAfter is the delay after which a missing response is logged and a GET is sent again.
const lateAfter = 10 * time.Second

// hedged reports whether the request is sent again when its response is late. The response
// to _changes may begin only with the first row.
func (q *Request) hedged() bool { return q.Method == http.MethodGet && q.Path != "_changes" }

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
				if _, err := db.config.Limits.wait(ctx, db.host); err != nil {
					answers <- answer{of, nil, err}
					return
				}
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
