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

// A want is a revision that is to be published, unless it turns out otherwise.
type want struct {
	bridge.Version
	row   *changes.Row // has the document, if chunk is nil
	chunk *chunk       // brings it
	// older: the feed has it already, and another revision of the document after it.
	older bool
}

// A piece is a batch of rows on its way into the feed.
type piece struct {
	batch    *changes.Batch
	follower *changes.Follower
	wants    []want // in the order they are published
	chunks   []*chunk
	bad      []bridge.Quarantined
}

// A reader reads the changes feed and finds out what of it is not in the feed yet.
type reader struct {
	bridge    *Bridge
	run       *run
	only      map[string]bool // ids of the documents to read the changes of; nil: all
	origin    origin
	since     json.RawMessage
	instance  string
	cause     error                               // of what was lost; the source is to be looked at again
	confirmed bool                                // the source was compared with the feed
	recent    atomic.Pointer[map[string][]string] // the last revisions that were read, by document
	logged    bool                                // the log says where the reader has begun
	followers []*changes.Follower
	repeating bool  // the last row was one that the feed has
	lean      int64 // rows that are yet to be read without their documents
	leanLast  int64 // rows that were to be read so the last time, if none was read with its document since
	reached   bool  // the source has answered
	failed    int   // times without a row, or the end

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

// checkEnd makes sure that the end of the changes feed is that of the database: the feed of
// one that is deleted meanwhile ends as if there was no more. An answer without rows needs
// no further request: the follower has looked at the database when it began.
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
		return fmt.Errorf("%w: it was %s, and is %s at the end of its changes", changes.ErrRecreated, was, is)
	}
	return nil
}

// follow reads one changes feed to its end, with another follower after one that gave up.
func (r *reader) follow(ctx context.Context, kind changes.Feed, pieces chan<- *bridge.Piece) error {
	for {
		if err := r.look(ctx); err != nil {
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
		if f := r.followers[last]; f.Stats().Rows == 0 { // so nobody needs it any more
			r.followers = r.followers[:last]
			if err := f.Close(); err != nil {
				return err
			}
		}
	}
}

// followOnce reads one changes feed to its end, or reports that it is to be followed again.
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
		if !asked && len(batch.Rows) >= batchRows/2 { // this is going to take longer
			asked = true
			o := r.options(kind)
			r.fetching.Go(func() { r.askPending(ctx, o) })
		}
		if r.lean > 0 {
			if r.lean -= int64(len(batch.Rows)); r.lean <= 0 { // they may be read with their documents now
				r.lean = 0
				return true, f.Close() // there are no documents that it must keep
			}
		}
	}
}

// look compares the source with the feed at first, and with what it was after it was lost.
func (r *reader) look(ctx context.Context) error {
	if !r.confirmed {
		err := r.confirm(ctx)
		r.confirmed = err == nil
		return err
	}
	if r.cause == nil || r.only != nil {
		return nil
	}
	err := r.reconfirm(ctx, r.since, r.cause)
	if err == nil {
		r.cause = nil
	}
	return err
}

// options says what to ask for, from where the reader is. The first time, a follower gives
// up at once, for somebody who is not there at all; and then soon, for tryAgain.
func (r *reader) options(kind changes.Feed) changes.Options {
	o := r.bridge.follow(kind, r.since, r.instance)
	o.Heard = func() { r.bridge.core.Meter.Count(func(p *bridge.Progress) { p.LastPoll = time.Now() }) }
	if r.only == nil {
		o.Reconnect = r.reconfirm
	}
	if r.lean > 0 {
		o.IncludeDocs = false
		o.SeqInterval = 0 // to go on with documents behind any row
	}
	o.Attempts = 3
	if !r.reached {
		o.Attempts = 1
	}
	switch picks := r.bridge.config.Filter.picks(); {
	case r.only != nil && picks:
		o.IncludeDocs = false // of which few are wanted
	case r.only != nil:
		o.DocIDs = slices.Sorted(maps.Keys(r.only))
	}
	return o
}

// askPending asks how many rows there are, for those who watch: a feed tells it only at
// its end.
func (r *reader) askPending(ctx context.Context, o changes.Options) {
	n, err := changes.Pending(ctx, r.bridge.config.Source, o)
	if err != nil {
		return // nothing depends on it
	}
	r.bridge.core.Meter.Count(func(p *bridge.Progress) { p.Pending = n })
}

// fetch starts to fetch the documents of a piece that is handed out: its receiver takes them in
// their order, and so makes room for the next.
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

// Close ends the followers.
func (r *reader) Close() (err error) {
	r.fetching.Wait()
	for _, f := range r.followers {
		err = errors.Join(err, f.Close())
	}
	return err
}

// classify finds out what is to be done with the rows of a piece.
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

// sort makes wants of all revisions in a piece, and finds the rows that cannot be.
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

// compare leaves those wants in a piece that the feed has not got, by what the index says
// to them, and distributes what must be fetched over requests.
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
			// As a leaf, an older one says nothing new. As a winner it may.
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

// revisions returns the revisions of a row, the winner last: what is read later counts
// more for whoever knows nothing of conflicts.
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

// hasDocument reports whether the row has its document, rather than none or an error.
func hasDocument(row *changes.Row) bool {
	return row.Doc != nil && row.Meta.ID == row.ID && row.Meta.Rev != ""
}

// mustFetch reports whether the document is to be read by itself.
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

// chunkFor returns the request that will bring a document.
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
