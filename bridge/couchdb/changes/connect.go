package changes

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/feedctl/feedctl/couchdb"
)

const (
	// checkpointAfter is how long a filtered feed may be silent before the follower reads up to the
	// end to advance the position.
	checkpointAfter = time.Minute
	// silentAfter is how long a response may consist of heartbeats before that is logged.
	silentAfter = time.Minute
	// flushAfter is how long rows of a normal feed wait for more rows of their batch.
	flushAfter = time.Second
)

// A response is the state of a response while it is being read.
type response struct {
	kind   Feed
	rows   int64
	body   io.ReadCloser
	last   time.Time // of the last row, or else of the request
	failed error     // why the body was closed
}

// connect makes a request and reads its response. It reports whether the feed is done.
func (f *Follower) connect(ctx context.Context) (done bool, err error) {
	o := &f.options
	f.response = response{kind: o.Feed, last: time.Now()}
	if f.malformed == reread {
		f.malformed = none
	}
	if f.catchUp {
		f.kind = Normal
	}
	limit := int64(0)
	if o.Feed == Normal {
		limit = o.PageRows
	}
	resp, cancel, err := f.request(ctx, limit)
	if err != nil {
		return false, err
	}
	defer cancel()
	if err := f.identify(resp.database); err != nil {
		resp.Body.Close()
		return false, err
	}
	f.body = resp.Body
	body := io.TeeReader(resp.Body, heard(o.Heard))
	if limit > 0 {
		ahead := f.readAhead(ctx, body, limit)
		defer ahead.close()
		body = ahead
	}
	defer resp.Body.Close()
	f.lines.json.Reset(body)
	f.lines.json.Blocks, f.lines.json.Lines = func() { f.wait(ctx) }, f.kind == Continuous
	end, err := f.answer()
	if failed := f.flush(); failed != nil {
		return false, failed
	}
	switch {
	case f.failed != nil:
		f.catchUp = f.catchUp || f.failed == errSilence
		return false, f.failed
	case err != nil:
		return false, err
	case !end:
		return false, errCut
	}
	f.catchUp, f.eager, f.malformed = false, false, none
	// Read to the end so that the connection can be reused.
	_, _ = io.CopyN(io.Discard, body, 1<<10)
	return o.Feed == Normal && (limit == 0 || f.rows < limit), nil
}

// request returns the response that was requested ahead, or makes a request. The caller must call
// cancel after it has read the body.
func (f *Follower) request(ctx context.Context, limit int64) (o opened, cancel func(), err error) {
	if n := f.take(); n != nil {
		return n.opened, n.cancel, n.err
	}
	q, err := f.query(f.since, limit)
	if err != nil {
		return o, nil, err
	}
	f.stats.Requests++
	o, err = f.open(ctx, q)
	if errors.Is(err, couchdb.ErrNotFound) && f.options.Selector != nil && !f.noPost && f.db.Exists(ctx) == nil {
		f.noPost = true // PouchDB Server
		return f.request(ctx, limit)
	}
	return o, func() {}, err
}

// query returns the request for the rows after a position.
func (f *Follower) query(since json.RawMessage, limit int64) (couchdb.Request, error) {
	q, err := f.options.request(f.kind, since, limit)
	if err != nil {
		return q, err
	}
	if f.noPost {
		q = f.options.withoutPost(q)
	}
	if f.eager {
		q.Query.Del("seq_interval")
	}
	return q, nil
}

// readAhead returns a pump that reads a response ahead of its reader. If there may be more rows, they
// are requested as soon as the response is complete.
func (f *Follower) readAhead(ctx context.Context, body io.Reader, limit int64) *pump {
	return newPump(body, func(tail []byte, rows int64) {
		since := endOf(tail)
		if rows < limit || since == nil {
			return
		}
		if q, err := f.query(since, limit); err == nil {
			f.next = f.openAhead(ctx, since, q)
		}
	})
}

// wait is called before a read that may block. It delivers the rows read so far.
func (f *Follower) wait(ctx context.Context) {
	if f.kind == Normal {
		if f.batch != nil && time.Since(f.batch.began) >= flushAfter {
			f.stop(f.flush())
		}
		if !f.warned && time.Since(f.last) >= silentAfter {
			f.warned = true
			o := &f.options
			o.Log.WarnContext(ctx, "server sends heartbeats but no rows; if a filter function fails, see the server's log",
				"database", f.db.URL(), "filter", o.Name+o.View, "since", silentAfter)
		}
		return
	}
	f.stop(f.flush())
	if f.options.filtered() && time.Since(f.last) >= checkpointAfter {
		f.stop(errSilence)
	}
}

// stop ends the response with an error.
func (f *Follower) stop(err error) {
	if err != nil && f.failed == nil {
		f.failed = err
		f.body.Close()
	}
}

// withoutPost moves the selector from the body of a request to its URL.
func (o *Options) withoutPost(q couchdb.Request) couchdb.Request {
	q.Query.Set("selector", string(o.Selector))
	q.Method, q.Body = http.MethodGet, nil
	return q
}

// AtEnd reports whether the server has no rows after a position.
func AtEnd(ctx context.Context, db *couchdb.DB, o Options) (bool, error) {
	o.setDefaults()
	o.IncludeDocs, o.SeqInterval = false, 0
	q, err := o.request(Normal, o.Since, 1)
	if err != nil {
		return false, err
	}
	var answer struct {
		Results []json.RawMessage `json:"results"`
	}
	err = db.JSON(ctx, q, &answer)
	if errors.Is(err, couchdb.ErrNotFound) && o.Selector != nil { // PouchDB Server
		err = db.JSON(ctx, o.withoutPost(q), &answer)
	}
	return err == nil && answer.Results != nil && len(answer.Results) == 0, err
}

// Pending returns how many rows the server says there are after a position, or -1 if, like PouchDB
// Server, it does not say. With a filter, the number is an upper bound.
func Pending(ctx context.Context, db *couchdb.DB, o Options) (int64, error) {
	o.setDefaults()
	o.IncludeDocs = false
	q, err := o.request(Normal, o.Since, 0)
	if err != nil {
		return -1, err
	}
	q.Once, q.Repeat = false, true
	q.Query.Set("limit", "0")
	answer := struct {
		Results []json.RawMessage `json:"results"`
		Pending *int64            `json:"pending"`
	}{}
	if err := db.JSON(ctx, q, &answer); err != nil || answer.Pending == nil {
		return -1, err
	}
	return *answer.Pending + int64(len(answer.Results)), nil
}
