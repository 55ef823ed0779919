package couchdb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

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
	batch    *changes.Batch
	follower *changes.Follower
	wants    []want // in the order they are published
	chunks   []*chunk
	bad      []bridge.Quarantined
}

// A reader reads the changes feed and determines which revisions are not in the feed yet.
type reader struct {
	bridge    *Bridge
	run       *run
	only      map[string]bool // ids of the documents to read the changes of; nil: all
	origin    origin
	since     json.RawMessage
	instance  string
	cause     error                               // of the last failure; the source must be verified again
	confirmed bool                                // the source was compared with the feed
	recent    atomic.Pointer[map[string][]string] // the last revisions that were read, by document
	logged    bool                                // the log has been written at the beginning
	followers []*changes.Follower
	repeating bool  // the last revision was already in the feed
	lean      int64 // rows still to be read without their documents
	leanLast  int64 // initial value of lean the last time; 0 once a row was read with its document
	reached   bool  // the source has responded
	failed    int   // consecutive attempts without a row or the end

	slots    chan struct{}
	fetching sync.WaitGroup
}

func newReader(b *Bridge, s *run, from origin) *reader {
	return &reader{
		bridge: b, run: s, origin: from, since: from.since, instance: s.state.Instance,
		slots: make(chan struct{}, fetchers),
	}
}

// Read sends pieces until the changes feed or ctx ends.
func (r *reader) Read(ctx context.Context, pieces chan<- *bridge.Piece) error {
	kinds := r.bridge.kinds()
	if r.only != nil {
		kinds = kinds[:1]
	}
	for _, kind := range kinds {
		if err := r.follow(ctx, kind, pieces); err != nil {
			return err
		}
	}
	return r.checkEnd(ctx)
}

// checkEnd verifies that the database was not replaced while its changes were read: if it is
// deleted, its changes feed ends as usual. After a response without rows that is not necessary,
// because the follower has requested the instance just before.
func (r *reader) checkEnd(ctx context.Context) error {
	f := r.followers[len(r.followers)-1]
	if f.Stats().Rows == 0 {
		return nil
	}
	info, err := r.bridge.config.Source.Info(ctx)
	if err != nil {
		return fmt.Errorf("check that the source database still exists: %w", err)
	}
	if was, is := f.Info().Instance(), info.Instance(); was != is {
		return fmt.Errorf("%w: instance was %s, is %s at the end of the changes", changes.ErrRecreated, was, is)
	}
	return nil
}

// follow reads one changes feed to its end, with a new follower after each failed one.
func (r *reader) follow(ctx context.Context, kind changes.Feed, pieces chan<- *bridge.Piece) error {
	for {
		if err := r.verify(ctx); err != nil {
			if err := r.tryAgain(ctx, false, err); err != nil {
				return err
			}
			continue
		}
		again, err := r.followOnce(ctx, kind, pieces)
		if err != nil || !again {
			return err
		}
		last := len(r.followers) - 1
		if f := r.followers[last]; f.Stats().Rows == 0 { // no document of it is in use
			r.followers = r.followers[:last]
			if err := f.Close(); err != nil {
				return err
			}
		}
	}
}

// followOnce reads one changes feed to its end, or returns true if it must be followed again.
func (r *reader) followOnce(ctx context.Context, kind changes.Feed, pieces chan<- *bridge.Piece) (again bool, err error) {
	o := r.options(kind)
	f, err := changes.New(r.bridge.config.Source, o)
	if err != nil {
		return false, err
	}
	r.followers = append(r.followers, f)
	requests := int64(0)
	asked := false
	for {
		batch, err := f.Next(ctx)
		now := f.Stats().Requests
		r.bridge.core.Meter.Count(func(p *bridge.Progress) { p.Requests += now - requests })
		requests = now
		switch {
		case errors.Is(err, io.EOF):
			return false, nil
		case err != nil:
			err = r.tryAgain(ctx, o.IncludeDocs, err)
			return err == nil, err
		}
		r.reached, r.failed = true, 0
		if o.IncludeDocs {
			r.leanLast = 0
		}
		r.instance = f.Instance()
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
		p := &piece{batch: batch, follower: f}
		if err := r.classify(p); err != nil {
			return false, err
		}
		select {
		case pieces <- r.run.piece(p, from, r.since, r.instance):
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
		if err := r.fetch(ctx, p.chunks); err != nil {
			return false, err
		}
		if !asked && len(batch.Rows) >= batchRows/2 { // there are probably many more
			asked = true
			o := r.options(kind)
			r.fetching.Go(func() { r.queryPending(ctx, o) })
		}
		if r.lean > 0 {
			if r.lean -= int64(len(batch.Rows)); r.lean <= 0 { // try again with documents
				r.lean = 0
				return true, f.Close() // it holds no documents
			}
		}
	}
}

// verify compares the source with the feed's checkpoint the first time, and after a failure
// with its earlier state.
func (r *reader) verify(ctx context.Context) error {
	if !r.confirmed {
		err := r.confirm(ctx)
		r.confirmed = err == nil
		return err
	}
	if r.cause == nil || r.only != nil {
		return nil
	}
	err := r.verifyAgain(ctx, r.since, r.cause)
	if err == nil {
		r.cause = nil
	}
	return err
}

// options returns the options for a follower from the reader's position. Until the source has
// responded, a follower makes only one attempt, and later three; then tryAgain decides.
func (r *reader) options(kind changes.Feed) changes.Options {
	o := r.bridge.follow(kind, r.since, r.instance)
	o.Heard = func() { r.bridge.core.Meter.Count(func(p *bridge.Progress) { p.LastPoll = time.Now() }) }
	if r.only == nil {
		o.Reconnect = r.verifyAgain
	}
	if r.lean > 0 {
		o.IncludeDocs = false
		o.SeqInterval = 0 // so that reading with documents can begin after any row
	}
	o.Attempts = 3
	if !r.reached {
		o.Attempts = 1
	}
	switch picks := r.bridge.config.Filter.picks(); {
	case r.only != nil && picks:
		o.IncludeDocs = false // few of them are needed
	case r.only != nil:
		o.DocIDs = slices.Sorted(maps.Keys(r.only))
	}
	return o
}

// queryPending queries how many rows there are, for the progress. The feed itself reports it
// only at its end.
func (r *reader) queryPending(ctx context.Context, o changes.Options) {
	n, err := changes.Pending(ctx, r.bridge.config.Source, o)
	if err != nil {
		return // it is only informative
	}
	r.bridge.core.Meter.Count(func(p *bridge.Progress) { p.Pending = n })
}

// fetch starts to fetch the documents of a piece that has been sent. Its receiver takes them in
// order, which makes room for the next.
func (r *reader) fetch(ctx context.Context, chunks []*chunk) error {
	for _, c := range chunks {
		select {
		case r.slots <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		r.fetching.Go(func() {
			defer func() { <-r.slots }()
			c.fetch(ctx, r.bridge)
		})
	}
	return nil
}

// Close waits for fetches and closes the followers.
func (r *reader) Close() (err error) {
	r.fetching.Wait()
	for _, f := range r.followers {
		err = errors.Join(err, f.Close())
	}
	return err
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

// compare keeps those wants of a piece that the feed does not have, according to claims, and
// assigns the documents that must be fetched to requests.
func (r *reader) compare(p *piece, claims []bridge.Claim) {
	all := p.wants
	p.wants = all[:0]
	missing, repeated, rewinds := int64(0), int64(0), int64(0)
	for i, w := range all {
		switch {
		case claims[i] == bridge.Absent:
			missing++
			r.repeating = false
			if r.mustFetch(w.row) {
				w.chunk = p.chunkFor(w.Version)
			}
			p.wants = append(p.wants, w)
			continue
		case claims[i] == bridge.Older && !r.bridge.config.Conflicts:
			// With Conflicts it is only a known leaf. Otherwise it may be the winner again.
			w.older = true
			p.wants = append(p.wants, w)
		}
		repeated++
		if !r.repeating {
			rewinds++
		}
		r.repeating = true
	}
	r.bridge.core.Meter.Count(func(n *bridge.Progress) {
		n.Compared += int64(len(all))
		n.Missing += missing
		n.Repeated += repeated
		n.Rewinds += rewinds
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
	revs := make([]string, 0, len(row.Revs))
	for i := range row.Revs {
		revs = append(revs, row.Revs[len(row.Revs)-1-i])
	}
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
		p.chunks = append(p.chunks, newChunk())
		n++
	}
	c := p.chunks[n-1]
	c.asks = append(c.asks, couchdb.IDRev{ID: want.ID, Rev: want.Rev})
	return c
}
