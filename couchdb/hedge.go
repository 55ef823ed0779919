package couchdb

import (
	"context"
	"net/http"
	"time"
)

// lateAfter is how long an answer may take until that is logged, and a GET is sent again.
const lateAfter = 10 * time.Second

// hedged reports whether the request is sent again when its answer is late. That of
// _changes may begin with the first row, however late that is.
func (q *Request) hedged() bool { return q.Method == http.MethodGet && q.Path != "_changes" }

// hedge sends a request, and if there is no answer when late receives, sends it a second
// time on another connection: a CouchDB cluster does not answer a request as long as it waits
// for a node that has failed. It returns the first answer and cancels the other request. Closing the answer's body must end the context of r.
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
	db.http.CloseIdleConnections() // which may be as dead
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
