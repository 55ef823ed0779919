package couchdb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/feedctl/feedctl/bridge"
	"github.com/feedctl/feedctl/bridge/couchdb/changes"
	"github.com/feedctl/feedctl/couchdb"
)

// A want is a revision that may have to be published.
type want struct {
	bridge.Version
	row   *changes.Row // has the document if chunk is nil
	chunk *chunk       // fetches the document
	older bool         // the feed has it, and a later revision of the document
}

// A piece is a batch of rows to be published.
type piece struct {
	batch  *changes.Batch
	wants  []want // in the order they are published
	chunks []*chunk
	bad    []bridge.Quarantined
}

// A reader reads the changes feed and determines which revisions are not in the feed yet.
type reader struct {
	bridge    *Bridge
	run       *run
	only      map[string]bool // ids of the documents to read the changes of; nil: all
	origin    origin
	since     json.RawMessage
	instance  string
	cause     error               // of the last failure; the source must be verified again
	confirmed bool                // the source was compared with the feed
	recent    map[string][]string // the last revisions that were read, by document
	logged    bool                // the log has been written at the beginning
	follower  *changes.Follower
	withDocs  bool      // the follower requests documents
	requests  int64     // of the follower
	asked     bool      // the source was asked how many rows are pending
	heard     time.Time // when something was last received
	checked   time.Time // when the source was last asked whether this is the end
	checking  atomic.Bool
	open      sync.Map // batches that are not settled
	repeating bool     // the last revision was already in the feed
	lean      int64    // rows still to be read without their documents
	leanLast  int64    // initial value of lean the last time; 0 once a row was read with its document
	reached   bool     // the source has responded
	failed    int      // consecutive attempts without a row or the end

	fetching errgroup.Group // at most fetchers at a time
}

func newReader(b *Bridge, s *run, from origin) *reader {
	r := &reader{bridge: b, run: s, origin: from, since: from.since, instance: s.state.Instance}
	r.fetching.SetLimit(fetchers)
	return r
}

// Read sends pieces until the changes feed or ctx ends.
func (r *reader) Read(ctx context.Context, pieces chan<- *bridge.Piece) error {
	// A normal feed is the cheapest for existing changes.
	err := r.follow(ctx, changes.Normal, pieces)
	if err == nil {
		r.ends(r.since)
	}
	if c := &r.bridge.config; err == nil && r.only == nil && c.Follow {
		kind := changes.Continuous
		if c.LongPoll {
			kind = changes.LongPoll
		}
		err = r.follow(ctx, kind, pieces)
	}
	if err != nil {
		return err
	}
	return r.checkEnd(ctx)
}

// ends records the newest known position of the source.
func (r *reader) ends(seq json.RawMessage) {
	if r.only == nil && len(seq) > 0 {
		r.bridge.core.Meter.Count(func(p *bridge.Progress) { p.Newest = string(seq) })
	}
}

// checkEnd verifies that the database was not replaced while its changes were being read: the
// changes feed of a deleted database ends as usual. After a feed without rows, the check is not
// necessary, because the follower has just requested the instance.
func (r *reader) checkEnd(ctx context.Context) error {
	if r.follower.Stats().Rows == 0 {
		return nil
	}
	info, err := r.bridge.config.Source.Info(ctx)
	if err != nil {
		return fmt.Errorf("check that the source database still exists: %w", err)
	}
	if was, is := r.follower.Info().Instance(), info.Instance(); was != is {
		return fmt.Errorf("%w: instance was %s, is %s at the end of the changes", changes.ErrRecreated, was, is)
	}
	return nil
}

// follow reads one changes feed to its end.
func (r *reader) follow(ctx context.Context, kind changes.Feed, pieces chan<- *bridge.Piece) error {
	r.follower = nil
	for {
		err := r.verify(ctx)
		if err == nil {
			if r.follower == nil {
				o := r.options(ctx, kind)
				if r.follower, err = changes.New(r.bridge.config.Source, o); err != nil {
					return err
				}
				r.withDocs, r.asked, r.requests = o.IncludeDocs, false, 0
			}
			begun := time.Now()
			var handled error
			err = r.follower.Follow(ctx, func(b *changes.Batch) error {
				handled = r.handle(ctx, kind, b, pieces)
				return handled
			})
			r.countRequests()
			switch {
			case handled == errWithDocs:
				r.follower = nil
				continue
			case err == nil || handled != nil:
				return handled
			case kind != changes.Normal && r.heard.Sub(begun) >= workedFor:
				r.failed = 0
			}
		}
		if err := r.tryAgain(ctx, err); err != nil {
			return err
		}
	}
}

// countRequests adds the new requests of the follower to the progress.
func (r *reader) countRequests() {
	now := r.follower.Stats().Requests
	r.bridge.core.Meter.Count(func(p *bridge.Progress) { p.Requests += now - r.requests })
	r.requests = now
}

// leanRows is how many rows are first read without their documents after reading them with
// documents has failed. The number doubles each time that reading with documents fails again.
const leanRows = batchRows

// tryAgain returns nil after a pause if the changes feed is to be followed again after it failed
// with err.
func (r *reader) tryAgain(ctx context.Context, err error) error {
	c := &r.bridge.config
	var network *net.OpError
	first := !r.reached
	r.reached = r.reached || !unreachable(err)
	r.cause = err
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, changes.ErrRecreated), errors.Is(err, bridge.ErrForeign), errors.Is(err, errBehind), couchdb.Permanent(err):
		return err
	case unreachable(err) && errors.As(err, &network):
		err = network // it is shorter, with the same information
		if first && !c.Follow && c.Attempts == 0 {
			return err
		}
	case r.follower != nil && r.withDocs && r.failed > 1 && couchdb.Status(err) != http.StatusTooManyRequests: // the documents may be the cause
		r.follower = nil
		r.leanLast = max(2*r.leanLast, leanRows)
		r.lean, r.failed = r.leanLast, 0
		c.Log.Warn("changes cannot be read with their documents, requesting documents separately for the next rows",
			"source", c.Source.URL(), "error", err, "rows", r.lean)
		return nil
	}
	r.failed++
	return r.bridge.core.AskAgain(ctx, r.failed, err)
}

// workedFor is how long a connection must have worked for its failure to count as the first one.
const workedFor = 30 * time.Second

// errWithDocs means that all rows that were to be read without documents have been read.
var errWithDocs = errors.New("reading with documents again")

// handle sends a batch of rows as a piece, and starts to fetch its documents.
func (r *reader) handle(ctx context.Context, kind changes.Feed, batch *changes.Batch, pieces chan<- *bridge.Piece) error {
	r.open.Store(batch, nil)
	r.countRequests()
	r.reached, r.failed = true, 0
	if r.withDocs {
		r.leanLast = 0
	}
	r.instance = r.follower.Instance()
	from := r.since
	if !r.logged && len(batch.Rows) > 0 && r.only == nil {
		r.logged = true
		if r.bridge.log.known.Load() == nil {
			r.bridge.log.write(ctx, from)
		}
	}
	r.remember(batch.Rows)
	if batch.Seq != nil {
		r.since = batch.Seq
	}
	if kind == changes.Normal {
		r.ends(r.follower.Info().UpdateSeq)
	} else {
		r.ends(r.since)
	}
	p := &piece{batch: batch}
	if err := r.classify(p); err != nil {
		return err
	}
	select {
	case pieces <- r.run.piece(p, from, r.since, r.instance):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for _, c := range p.chunks {
		// The receiver of the piece takes the documents in order, which makes room for the next.
		r.fetching.Go(func() error { c.fetch(ctx, r.bridge); return nil })
	}
	if !r.asked && len(batch.Rows) >= batchRows/2 { // there are probably many more
		r.asked = true
		o := r.options(ctx, kind)
		r.fetching.Go(func() error { // the feed itself reports it only at its end
			if n, err := changes.Pending(ctx, r.bridge.config.Source, o); err == nil { // the number is only informative
				r.bridge.core.Meter.Count(func(p *bridge.Progress) { p.Pending = n })
			}
			return nil
		})
	}
	if r.lean > 0 {
		if r.lean -= int64(len(batch.Rows)); r.lean <= 0 {
			r.lean = 0
			return errWithDocs
		}
	}
	return nil
}

// verify compares the source with the feed's checkpoint on the first call; after a failure, it
// compares the source with its earlier state.
func (r *reader) verify(ctx context.Context) error {
	if !r.confirmed {
		err := r.confirm(ctx)
		r.confirmed = err == nil
		return err
	}
	if r.cause == nil || r.only != nil {
		return nil
	}
	err := r.verifyAgain(ctx)
	if err == nil {
		r.cause = nil
	}
	return err
}

// heartbeat is the interval of the source's heartbeats. After three missing heartbeats, the
// follower reconnects.
const heartbeat = 5 * time.Second

// How much of the changes feed is read at a time. With pages, servers that buffer responses prepare
// the next rows while earlier ones are being published.
const (
	pageRows   = 2000
	batchRows  = 1000
	batchBytes = 1 << 20
)

// options returns the options for a follower from the reader's position.
func (r *reader) options(ctx context.Context, kind changes.Feed) changes.Options {
	c := &r.bridge.config
	o := changes.Options{
		Feed: kind, Since: r.since, Instance: r.instance, Filter: c.Filter,
		AllDocs: c.Conflicts, IncludeDocs: !c.Revs && !c.Conflicts && r.lean == 0,
		BatchRows: batchRows, BatchBytes: batchBytes, Heartbeat: r.bridge.heartbeat, Log: c.Log,
		Heard: func() {
			r.heard = time.Now()
			r.bridge.core.Meter.Count(func(p *bridge.Progress) { p.LastPoll = r.heard })
			if kind != changes.Normal {
				r.checkIdle(ctx, kind)
			}
		},
	}
	if kind == changes.Normal {
		o.PageRows = pageRows
		if r.lean == 0 { // otherwise, reading with documents begins after any row
			o.SeqInterval = batchRows // one position per batch is enough
		}
	}
	switch picks := c.Filter.Picks(); {
	case r.only != nil && picks:
		o.IncludeDocs = false // few of them are needed
	case r.only != nil:
		o.DocIDs = slices.Sorted(maps.Keys(r.only))
	}
	return o
}

// checkIdle calls Config.Idle if the source has no changes that are not in the feed. It asks the
// source itself, since a heartbeat does not mean that there are no changes.
func (r *reader) checkIdle(ctx context.Context, kind changes.Feed) {
	c := &r.bridge.config
	if c.Idle == nil || time.Since(r.checked) < r.bridge.heartbeat || !r.checking.CompareAndSwap(false, true) {
		return
	}
	r.checked = time.Now()
	o := r.options(ctx, kind)
	_, o.Since = r.run.Places()
	check := func() error {
		defer r.checking.Store(false)
		if end, err := changes.AtEnd(ctx, c.Source, o); err == nil && end { // otherwise the source is asked again
			c.Idle()
		}
		return nil
	}
	if !r.fetching.TryGo(check) {
		r.checking.Store(false) // it is busy
	}
}

// Close waits for fetches and closes the batches that are not settled.
func (r *reader) Close() error {
	_ = r.fetching.Wait() // no error is returned
	r.open.Range(func(batch, _ any) bool {
		batch.(*changes.Batch).Close()
		return true
	})
	return nil
}

// classify determines which revisions of a piece must be published.
func (r *reader) classify(p *piece) error {
	rows := int64(len(p.batch.Rows))
	r.bridge.core.Meter.Count(func(n *bridge.Progress) {
		n.Rows += rows
		if n.Pending >= 0 {
			n.Pending = max(n.Pending-rows, 0)
		}
		if p.batch.Pending >= 0 {
			n.Pending = p.batch.Pending
		}
	})
	r.sort(p)
	if len(p.wants) == 0 {
		return nil
	}
	pairs := make([]bridge.Version, len(p.wants))
	for i := range p.wants {
		pairs[i] = p.wants[i].Version
	}
	claims, err := r.bridge.core.Index.Claim(pairs...)
	if err != nil {
		return err
	}
	r.compare(p, claims)
	return nil
}

// sort sets the wants of a piece, and collects the rows for quarantine.
func (r *reader) sort(p *piece) {
	p.wants = make([]want, 0, len(p.batch.Rows))
	for i := range p.batch.Rows {
		row := &p.batch.Rows[i]
		switch {
		case r.only != nil && row.Err == nil && !r.only[row.ID]:
		case row.Err != nil:
			p.bad = append(p.bad, bridge.Quarantined{Reason: row.Err.Error(), Row: row.Raw})
		case row.ID == "":
			p.bad = append(p.bad, bridge.Quarantined{Reason: "row has no document id", Rev: first(row.Revs)})
		case !utf8.ValidString(row.ID):
			p.bad = append(p.bad, bridge.Quarantined{Reason: fmt.Sprintf("document id %q %v", row.ID, bridge.ErrNotUTF8), Rev: first(row.Revs), Row: []byte(row.ID)})
		case len(row.Revs) == 0 && row.Meta.Rev == "":
			p.bad = append(p.bad, bridge.Quarantined{ID: row.ID, Reason: "row has no revision"})
		case strings.HasPrefix(row.ID, "_design/") && !r.bridge.config.DesignDocs:
		default:
			for _, rev := range r.revisions(row) {
				p.wants = append(p.wants, want{Version: bridge.Version{ID: row.ID, Rev: rev}, row: row})
			}
		}
	}
}

// compare keeps those wants of a piece that, according to claims, the feed does not have. It
// assigns the documents that must be fetched to chunks.
func (r *reader) compare(p *piece, claims []bridge.Claim) {
	all := p.wants
	p.wants = all[:0]
	r.bridge.core.Meter.Count(func(n *bridge.Progress) {
		n.Compared += int64(len(all))
		for i, w := range all {
			switch {
			case claims[i] == bridge.Absent:
				n.Missing++
				r.repeating = false
				if r.mustFetch(w.row) {
					w.chunk = p.chunkFor(w.Version)
				}
				p.wants = append(p.wants, w)
				continue
			case claims[i] == bridge.Older && !r.bridge.config.Conflicts:
				// The revision may have become the winner again. With Conflicts, this does not
				// matter: all leaves are published.
				w.older = true
				p.wants = append(p.wants, w)
			}
			n.Repeated++
			if !r.repeating {
				n.Rewinds++
			}
			r.repeating = true
		}
	})
}

// revisions returns the revisions of a row, winner last: for readers that do not know about
// conflicts, the last revision counts.
func (r *reader) revisions(row *changes.Row) []string {
	switch {
	case hasDocument(row):
		return []string{row.Meta.Rev} // the document may be newer than the row
	case !r.bridge.config.Conflicts:
		return row.Revs[:1]
	}
	revs := slices.Clone(row.Revs)
	slices.Reverse(revs)
	return revs
}

// hasDocument reports whether the row has its document.
func hasDocument(row *changes.Row) bool {
	return row.Doc != nil && row.Meta.ID == row.ID && row.Meta.Rev != ""
}

// mustFetch reports whether the document must be requested separately.
func (r *reader) mustFetch(row *changes.Row) bool {
	a := r.bridge.config.Attachments
	return !hasDocument(row) || row.Meta.HasAttachments && (a == Inline || a == Multipart)
}

func first(revs []string) string {
	if len(revs) == 0 {
		return ""
	}
	return revs[0]
}

// chunkFor adds a document to a chunk, and returns the chunk.
func (p *piece) chunkFor(want bridge.Version) *chunk {
	n := len(p.chunks)
	if n == 0 || len(p.chunks[n-1].asks) == fetchDocs {
		p.chunks = append(p.chunks, &chunk{docs: make(chan fetched, fetchDocs), room: semaphore.NewWeighted(chunkBytes)})
		n++
	}
	c := p.chunks[n-1]
	c.asks = append(c.asks, couchdb.IDRev{ID: want.ID, Rev: want.Rev})
	return c
}
