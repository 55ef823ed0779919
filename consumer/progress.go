package consumer

import (
	"context"
	"time"

	"github.com/feedctl/feedctl/feed"
)

// Progress is the progress of a [Job]. The rate and the remaining time can be computed from two such values.
type Progress struct {
	Stats
	// Position is the position that was committed at the time Committed.
	Position  feed.Position
	Committed time.Time
	// Page is the URL of the page that is being read.
	Page string
	// Newest is the Last-Modified of the feed's newest page, updated every few seconds; zero while it is not known.
	// Lag is how much older the position is than the newest page.
	Newest time.Time
	Lag    time.Duration
	// First is the Last-Modified of the first position in the feed that this run committed. The run covers the time
	// from First to Newest.
	First time.Time
	// SnapshotPages and SnapshotEntities are the numbers of pages and entities (0 if not in the
	// index) of the snapshot being read. Position names the current page.
	SnapshotPages    int
	SnapshotEntities int64
}

// lagInterval is the interval between requests for the newest page while the job
// has not reached it.
const lagInterval = 10 * time.Second

// A lag tracks how far the job is behind the newest page.
type lag struct {
	url      string // the feed's entry point
	page     *Page  // that is being read
	snapshot *index // the snapshot that is being read, or nil
	newest   time.Time
	asked    time.Time
	first    time.Time
}

// report calls the job's Progress for a position that was committed, and makes later requests announce that position.
func (r *run) report(ctx context.Context, at feed.Position) {
	r.committed = at
	r.s.announce(at)
	if r.Progress == nil {
		return
	}
	l := &r.lag
	p := Progress{Stats: r.stats, Position: at, Committed: time.Now()}
	if l.page != nil {
		p.Page = l.page.URL
	}
	if l.snapshot != nil {
		p.SnapshotPages, p.SnapshotEntities = len(l.snapshot.Pages), l.snapshot.Entities
	}
	if at.Snapshot == nil && !at.LastModified.IsZero() {
		if l.first.IsZero() {
			l.first = at.LastModified
		}
		r.findNewest(ctx)
		p.First, p.Newest = l.first, l.newest
		if !l.newest.IsZero() {
			p.Lag = max(0, l.newest.Sub(at.LastModified))
		}
	}
	r.Progress(p)
}

// findNewest requests the newest page every lagInterval. Errors are only logged.
func (r *run) findNewest(ctx context.Context) {
	l := &r.lag
	if l.page != nil && l.snapshot == nil && l.page.Newest() {
		l.newest = l.page.LastModified
		return
	}
	if !l.asked.IsZero() && time.Since(l.asked) < lagInterval {
		return
	}
	l.asked = time.Now()
	resp, err := r.s.try(Request{URL: l.url, Head: true})
	if err == nil {
		resp.Body.Close()
		var p *Page
		if p, err = newFeedPage(resp); err == nil {
			l.newest = p.LastModified
		}
	}
	if err != nil {
		r.Logger.DebugContext(ctx, "newest page is not known", "error", err)
	}
}
