package couchdb

import (
	"context"
	"net/http"

	"github.com/feedctl/feedctl/internal/origins"
	"github.com/feedctl/feedctl/internal/roundtrip"
)

// options returns the options for sending a request. If the response is late, this is logged, and most GET
// requests are sent again; see hedged.
func (db *DB) options(ctx context.Context, q Request) roundtrip.Options {
	o, late := roundtrip.Options{IdleTimeout: q.IdleTimeout}, make(chan struct{}, 1)
	if q.hedged() {
		o.Do = func(r *http.Request) (*http.Response, error) { return db.hedge(r, late) }
	}
	o.Late = func() {
		db.client.Log.WarnContext(ctx, "response is late", "request", db.what(q), "since", roundtrip.LateAfter, "limit", db.client.HeaderTimeout, "sent_again", q.hedged())
		select {
		case late <- struct{}{}:
		default:
		}
	}
	return o
}

// hedged reports whether the request is sent again when its response is late. Requests for _changes and
// _db_updates are not, since their responses may not begin until there is a first row.
func (q *Request) hedged() bool {
	return q.Method == http.MethodGet && q.Path != "_changes" && q.Path != updatesPath
}

// hedge sends a request. If there is no response by the time a value arrives on late, it sends the request
// again on another connection, since a CouchDB cluster does not respond while it waits for a failed node.
// It returns the first response and cancels the other request. Closing the body of the response must end
// the context of r.
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
				turn, err := db.client.Limits.Begin(ctx, db.client.Origin, r.Method, origins.MaxRetryAfter)
				if err != nil {
					answers <- answer{of, nil, err}
					return
				}
				defer turn.Failed()
			}
			resp, err := db.client.HTTP.Do(r.Clone(ctx)) //nolint:bodyclose // the caller closes it
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
	db.client.HTTP.CloseIdleConnections() // other connections may be broken, too
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
