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
	// flushAfter is how long rows of a normal feed wait for others of their batch.
	flushAfter = time.Second
)

// A response is a response of the server that is being read.
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
	q, err := o.request(f.kind, f.since, limit)
	if err != nil {
		return false, err
	}
	if f.noPost {
		q = o.withoutPost(q)
	}
	if f.eager {
		q.Query.Del("seq_interval")
	}
	f.stats.Requests++
	resp, err := f.db.Do(ctx, q)
	if errors.Is(err, couchdb.ErrNotFound) && o.Selector != nil && !f.noPost && f.db.Exists(ctx) == nil {
		f.noPost = true // PouchDB Server
		return f.connect(ctx)
	}
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	// The server accepts a position of an earlier database without complaint. The instance is
	// requested after the feed began, so it is that of the database that the feed is from.
	if err := f.identify(ctx); err != nil {
		return false, err
	}
	f.body = resp.Body
	f.lines.json.Reset(io.TeeReader(resp.Body, heard(o.Heard)))
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
	_, _ = io.CopyN(io.Discard, resp.Body, 1<<10)
	return o.Feed == Normal && (limit == 0 || f.rows < limit), nil
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

// withoutPost has the selector in the URL of a request instead of the body.
func (o *Options) withoutPost(q couchdb.Request) couchdb.Request {
	q.Query.Set("selector", string(o.Selector))
	q.Method, q.Body = http.MethodGet, nil
	return q
}

// AtEnd asks the server whether there are no rows after a position.
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

// Pending returns how many rows there are after a position according to the server, or -1 if the
// server does not report it, like PouchDB Server. With a filter it is an upper bound.
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
