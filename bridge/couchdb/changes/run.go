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

// checkpointAfter is how long a filtered feed may be silent before the follower reads
// up to the end to advance the position.
const checkpointAfter = time.Minute

// A run reads a feed, over any number of connections.
type run struct {
	f     *Follower
	since json.RawMessage // the last position read
	read  int64           // rows read, for Limit
	tries int             // attempts without progress

	batch     *Batch // being filled; may be nil
	kind      Feed   // of the current response
	rows      int    // in the current response
	body      io.ReadCloser
	lines     lineReader
	last      time.Time // of the last row, or else of the request
	heard     time.Time // of the last byte; zero if there was none
	catchUp   bool      // the next request only finds the position
	silence   bool      // the connection was closed because the feed was silent
	warned    bool      // about the absence of rows
	noPost    bool      // the server requires the selector in the URL
	eager     bool      // request a sequence with each row
	malformed malformedState
}

// A malformedState is how malformed rows are handled.
type malformedState int

const (
	none      malformedState = iota // there was none
	rereading                       // one was requested again
	reread                          // they are delivered, up to the end of the response
)

var (
	errCut     = errors.New("feed ends without last sequence")
	errEmpty   = errors.New("server ends the feed at once instead of waiting for changes")
	errSilence = errors.New("filtered feed is silent")
)

// A serverError is an error in the feed.
type serverError struct{ code, reason string }

func (e *serverError) Error() string { return "server ended the feed: " + e.code + ": " + e.reason }

// A malformedRowError is about a malformed row.
type malformedRowError struct{ err error }

func (e *malformedRowError) Error() string { return "malformed row: " + e.err.Error() }
func (e *malformedRowError) Unwrap() error { return e.err }

// follow reads the feed to its end, if it has one.
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
			continue // servers end live feeds now and then
		case err == nil:
			err = errEmpty
		}
		if o.Feed != Normal && r.heard.Sub(began) >= o.MaxRetry {
			r.tries = 0 // the connection worked for a while
		}
		if r.rows > 0 && r.malformed != rereading && string(before) == string(r.since) {
			r.eager = true // otherwise each connection may break before the next sequence
		}
		if err := r.reconnect(err); err != nil {
			return err
		}
	}
}

// reconnect waits and calls Options.Reconnect. It returns an error if the follower is to
// end.
func (r *run) reconnect(cause error) error {
	for {
		if err := r.pause(cause); err != nil {
			return err
		}
		var malformed *malformedRowError
		if r.f.options.Reconnect == nil || errors.As(cause, &malformed) {
			return nil
		}
		err := r.f.options.Reconnect(r.f.ctx, r.since, cause)
		if err == nil || !couchdb.Retryable(err) {
			return err
		}
		cause = err
	}
}

// identify returns ErrRecreated if the database is not the one followed so far.
func (r *run) identify(info couchdb.Info) error {
	f := r.f
	instance := info.Instance()
	if instance == "" && len(info.Cluster) > 0 {
		// CouchDB before 3.3: use the name of the database and the server's uuid.
		server, err := f.db.Server(f.ctx)
		if err != nil && !final(err) { // final if a proxy exposes only databases
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
		f.instance = instance // not comparable: first connection, or the server was upgraded
	case f.instance != instance:
		return fmt.Errorf("%w: instance was %s, is now %s", ErrRecreated, f.instance, instance)
	}
	return nil
}

// serverPrefix distinguishes a server's uuid from the instance of a database.
const serverPrefix = "server "

// pause waits before the next attempt. It returns an error if there must be none.
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
	o.Log.WarnContext(r.f.ctx, "changes feed failed, reconnecting", "database", r.f.db.URL(), "error", err, "try", r.tries, "pause", pause)
	if backoff.Sleep(r.f.ctx, pause) != nil {
		return errClosed
	}
	return nil
}

// final reports whether reconnecting cannot help.
func final(err error) bool {
	return errors.Is(err, ErrRecreated) || errors.Is(err, errClosed) || couchdb.Permanent(err)
}

// connect makes a request and reads its response. It reports whether the feed is done.
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
	if r.malformed == reread {
		r.malformed = none
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
	// The server accepts a position of an earlier database without complaint. Info is
	// requested after the feed began, so it describes the database that the feed is
	// from.
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
	r.catchUp, r.eager, r.malformed = false, false, none
	// Read to the end so that the connection can be reused.
	_, _ = io.CopyN(io.Discard, resp.Body, 1<<10)
	if paged && int64(r.rows) >= limit {
		return false, nil
	}
	return o.Feed == Normal || o.Limit > 0 && r.read >= o.Limit, nil
}

// silentAfter is how long a response may consist of heartbeats before that is logged.
const silentAfter = time.Minute

// wait is called before a read that may block. It delivers the rows read so far.
func (r *run) wait() {
	if r.kind == Normal && !r.warned && time.Since(r.last) >= silentAfter {
		r.warned = true
		o := &r.f.options
		o.Log.WarnContext(r.f.ctx, "server sends heartbeats but no rows; if a filter function fails, see the server's log",
			"database", r.f.db.URL(), "filter", o.Filter+o.View, "since", silentAfter)
	}
	if r.flush() != nil || r.kind == Normal || !r.f.options.filtered() || time.Since(r.last) < checkpointAfter {
		return // if flush failed, Close has closed the connection
	}
	r.silence = true
	r.body.Close()
}

// flush delivers the current batch.
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

// A countingReader counts bytes and records when the last was received.
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

// Pending returns how many rows there are after a position according to the server, or
// -1 if the server does not report it, like PouchDB Server. With a filter it is an upper
// bound.
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
