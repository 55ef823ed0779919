package changes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/internal/backoff"
	"github.com/feedctl/feedctl/internal/jsonscan"
)

// checkpointAfter is how long a filtered feed may be silent until the position
// is moved on by other means.
const checkpointAfter = time.Minute

// A run is the reading of a feed, over as many connections as it takes.
type run struct {
	f     *Follower
	since json.RawMessage // the last position that was read
	read  int64           // rows, for Limit
	tries int             // without progress

	batch   *Batch // what is being read; nil: nothing
	kind    Feed   // of the present answer
	rows    int    // in the present answer
	body    io.ReadCloser
	lines   lineReader
	last    time.Time // when a row came, or the request was made
	heard   time.Time // when a byte came; zero: none did
	catchUp bool      // the next request is to find the position only
	silence bool      // the connection was ended because of it
	warned  bool      // that no rows come
	noPost  bool      // the server wants a selector in the URL
	eager   bool      // each row shall have a sequence
	doubt   doubt
}

// A doubt is about rows that make no sense.
type doubt int

const (
	trusting doubt = iota
	asked          // for the one that made none again
	certain        // that it was no accident, for the rest of the answer
)

var (
	errCut     = errors.New("feed ends without its last sequence")
	errEmpty   = errors.New("server does not wait for something to happen")
	errSilence = errors.New("filtered feed is silent")
)

// A serverError is an error in the middle of the feed.
type serverError struct{ code, reason string }

func (e *serverError) Error() string { return "server ended the feed: " + e.code + ": " + e.reason }

// A nonsenseError is a row that makes no sense.
type nonsenseError struct{ err error }

func (e *nonsenseError) Error() string { return "row makes no sense: " + e.err.Error() }
func (e *nonsenseError) Unwrap() error { return e.err }

// follow reads the feed to its end, which most feeds have not got.
func (r *run) follow() error {
	o := &r.f.options
	r.lines = lineReader{maxWhole: o.MaxWhole, spoolDir: o.SpoolDir, json: jsonscan.NewReader(nil)}
	for {
		began, before := time.Now(), r.since
		done, err := r.connect()
		lasted := time.Since(began)
		switch {
		case r.f.ctx.Err() != nil:
			return errClosed
		case done:
			return io.EOF
		case err == errSilence:
			continue
		case err == nil && (r.rows > 0 || lasted >= o.MinRetry || r.kind == Normal):
			continue // a live feed that ended, as they do
		case err == nil:
			err = errEmpty
		}
		if o.Feed != Normal && r.heard.Sub(began) >= o.MaxRetry {
			r.tries = 0 // it was well for a while
		}
		if r.rows > 0 && r.doubt != asked && string(before) == string(r.since) {
			r.eager = true // or the connection may always break before the next sequence
		}
		if err := r.reconnect(err); err != nil {
			return err
		}
	}
}

// reconnect waits, and asks whether to go on. It returns an error if not.
func (r *run) reconnect(cause error) error {
	for {
		if err := r.pause(cause); err != nil {
			return err
		}
		var nonsense *nonsenseError
		if r.f.options.Reconnect == nil || errors.As(cause, &nonsense) {
			return nil
		}
		err := r.f.options.Reconnect(r.f.ctx, r.since, cause)
		if err == nil || !couchdb.Retryable(err) {
			return err
		}
		cause = err
	}
}

// identify compares the database with the one that was followed so far.
func (r *run) identify(info couchdb.Info) error {
	f := r.f
	instance := info.Instance()
	if instance == "" && len(info.Cluster) > 0 {
		// An old CouchDB. At least it is the same name on the same server.
		server, err := f.db.Server(f.ctx)
		if err != nil && !final(err) { // a proxy may show nothing but databases
			return err
		}
		if server.UUID != "" {
			instance = serverPrefix + server.UUID + "/" + f.db.Name()
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.info = info
	switch {
	case instance == "":
	case strings.HasPrefix(instance, serverPrefix) != strings.HasPrefix(f.instance, serverPrefix), f.instance == "":
		f.instance = instance // nothing to compare it with: the server was upgraded
	case f.instance != instance:
		return fmt.Errorf("%w: it was %s, and is %s now", ErrRecreated, f.instance, instance)
	}
	return nil
}

// serverPrefix tells a server's uuid from a database's instance.
const serverPrefix = "server "

// pause waits before the next try. It returns an error if there is none.
func (r *run) pause(err error) error {
	o := &r.f.options
	if final(err) {
		return err
	}
	r.tries++
	if o.Attempts > 0 && r.tries >= o.Attempts {
		return fmt.Errorf("no progress in %d attempts: %w", r.tries, err)
	}
	pause := backoff.Backoff{Min: o.MinRetry, Max: o.MaxRetry}.After(r.tries)
	r.f.count(func(s *Stats) { s.Reconnects++ })
	o.Log.WarnContext(r.f.ctx, "will follow changes again", "database", r.f.db.URL(), "error", err, "try", r.tries, "pause", pause)
	if backoff.Sleep(r.f.ctx, pause) != nil {
		return errClosed
	}
	return nil
}

// final reports whether asking again is of no use.
func final(err error) bool {
	return errors.Is(err, ErrRecreated) || errors.Is(err, errClosed) || couchdb.Permanent(err)
}

// connect reads an answer. It reports whether the feed is done.
func (r *run) connect() (done bool, err error) {
	o := &r.f.options
	limit := int64(0)
	if o.Limit > 0 {
		limit = o.Limit - r.read
	}
	paged := o.Feed == Normal && o.PageRows > 0 && (limit == 0 || limit > o.PageRows)
	if paged {
		limit = o.PageRows
	}
	r.kind, r.rows, r.silence, r.heard = o.Feed, 0, false, time.Time{}
	if r.doubt == certain {
		r.doubt = trusting
	}
	if r.catchUp {
		r.kind = Normal
	}
	q, err := o.request(r.kind, r.since, limit)
	if err != nil {
		return false, err
	}
	if r.noPost {
		q.Query.Set("selector", string(o.Selector))
		q.Method, q.Body = http.MethodGet, nil
	}
	if r.eager {
		q.Query.Del("seq_interval")
	}
	r.f.count(func(s *Stats) { s.Requests++ })
	r.last = time.Now()
	resp, err := r.f.db.Do(r.f.ctx, q)
	if errors.Is(err, couchdb.ErrNotFound) && o.Selector != nil && !r.noPost && r.f.db.Exists(r.f.ctx) == nil {
		r.noPost = true // PouchDB Server
		return r.connect()
	}
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	// A position in the old database is one in the new one, too, for all that
	// the server says. Asked in this order, the answer is the one of the database
	// that the feed is of.
	info, err := r.f.db.Info(r.f.ctx)
	if err == nil {
		err = r.identify(info)
	}
	if err != nil {
		return false, err
	}
	r.body = resp.Body
	r.lines.json.Reset(&countingReader{src: resp.Body, r: r})
	r.lines.json.Blocks, r.lines.json.Lines = r.wait, r.kind == Continuous
	end, err := r.answer()
	if flushed := r.flush(); flushed != nil {
		return false, flushed
	}
	switch {
	case r.silence:
		r.catchUp = true
		return false, errSilence
	case err == errLimit:
		return true, nil
	case err != nil:
		return false, err
	case !end:
		return false, errCut
	}
	r.catchUp, r.eager, r.doubt = false, false, trusting
	// So that the connection can be used again.
	_, _ = io.CopyN(io.Discard, resp.Body, 1<<10)
	if paged && int64(r.rows) >= limit {
		return false, nil
	}
	return o.Feed == Normal || o.Limit > 0 && r.read >= o.Limit, nil
}

// silentAfter is how long an answer may have no rows, but heartbeats, until that is worth a word.
const silentAfter = time.Minute

// wait is called before the feed is waited for: what was read is handed out.
func (r *run) wait() {
	if r.kind == Normal && !r.warned && time.Since(r.last) >= silentAfter {
		r.warned = true
		o := &r.f.options
		o.Log.WarnContext(r.f.ctx, "server sends heartbeats, but no rows: if a filter function fails, its log says so",
			"database", r.f.db.URL(), "filter", o.Filter+o.View, "since", silentAfter)
	}
	if r.flush() != nil || r.kind == Normal || !r.f.options.filtered() || time.Since(r.last) < checkpointAfter {
		return // a follower that is closed has a connection that is closed
	}
	r.silence = true
	r.body.Close()
}

// flush hands out what was read.
func (r *run) flush() error {
	if r.batch == nil {
		return nil
	}
	b := r.batch
	r.batch = nil
	err := r.f.offer(b)
	if err != nil {
		b.release()
	}
	return err
}

// countingReader counts bytes, and knows when the last came.
type countingReader struct {
	src io.Reader
	r   *run
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.src.Read(p)
	if n > 0 {
		c.r.heard = time.Now()
		if heard := c.r.f.options.Heard; heard != nil {
			heard()
		}
	}
	c.r.f.count(func(s *Stats) { s.Bytes += int64(n) })
	return n, err
}

// Pending asks the server how many rows there are after a position, or -1 if
// it does not say, as PouchDB Server. With a filter it is an upper bound.
func Pending(ctx context.Context, db *couchdb.DB, o Options) (int64, error) {
	o.setDefaults()
	o.IncludeDocs = false
	q, err := o.request(Normal, o.Since, 1)
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
