package console

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/internal/shell"
	"github.com/feedctl/feedctl/jobs"
)

// Limits of the overview.
const (
	headsWait   = 10 * time.Millisecond // to wait for feeds to be polled
	summaryWait = 30 * time.Millisecond // to wait for feeds to be summarized
	overviewMax = 40                    // feeds
	failingMax  = 5                     // jobs
)

// overviewView is what the overview shows.
type overviewView struct {
	page
	Count         int // of the feeds in the store
	Read          int // of those that have been read so far
	Active, Quiet int
	Latest        bool // the table has only the feeds that changed most recently
	feedsTable
	Store   storeView
	Failing *failingView // nil without jobs
}

// A storeView is what the overview shows of the store.
type storeView struct {
	Name     string
	Requests *requestsView // nil if they are not counted
	Space    *Space        // nil if it is not known
}

// A failingView lists the jobs that need attention.
type failingView struct {
	Total int
	Jobs  []jobRow
}

// A Space says how much space a store has.
type Space struct{ Free, Total int64 } // bytes

// Low reports whether less than 5 % or 1 GiB is free, as "feedctl doctor" does.
func (s *Space) Low() bool { return s.Free < 1<<30 || s.Free*20 < s.Total }

// getOverview answers requests for "/".
func (c *Console) getOverview(r *http.Request) (content, error) {
	v := &overviewView{page: page{Title: "Overview", Command: shell.Line("feedctl", "list", "--store", c.config.StoreName)}}
	now := c.config.Now()
	heads, count := c.config.Feeds.Heads(headsWait)
	v.Count, v.Read = max(count, len(heads)), len(heads)
	for _, p := range heads {
		if stateOf(p, now) == stateActive {
			v.Active++
		} else {
			v.Quiet++
		}
	}
	names, more, err := c.firstFeeds(r.Context(), overviewMax)
	if err != nil {
		return nil, err
	}
	if v.Latest = more; more {
		names = latest(heads, overviewMax)
	}
	v.Count = max(v.Count, len(names))
	v.feedsTable = c.feedRows(r.Context(), names)
	v.Store.Name = c.config.StoreName
	if c.config.Requests != nil {
		v.Store.Requests = c.config.Requests.view(now)
	}
	if c.config.Space != nil {
		v.Store.Space = c.config.Space()
	}
	if c.config.Jobs != nil {
		v.Failing, err = c.failing(r.Context())
	}
	return v, err
}

// latest returns the names of the feeds with the newest entities, at most limit, newest first.
func latest(heads []*chain.Page, limit int) (names []string) {
	slices.SortFunc(heads, func(a, b *chain.Page) int { return cmp.Or(b.Last.Compare(a.Last), strings.Compare(a.Feed, b.Feed)) })
	for _, p := range heads[:min(len(heads), limit)] {
		names = append(names, p.Feed)
	}
	return names
}

// failing returns the jobs that have failed, or are waiting for another attempt after an error.
func (c *Console) failing(ctx context.Context) (*failingView, error) {
	states := []jobs.State{jobs.Failed, jobs.Crashing}
	totals, err := c.config.Jobs.Totals(ctx, jobs.Filter{})
	if err != nil {
		return nil, jobsProblem(err)
	}
	v := new(failingView)
	for _, state := range states {
		v.Total += totals[state]
	}
	if v.Total == 0 {
		return v, nil
	}
	found, err := c.config.Jobs.List(ctx, jobs.Filter{States: states, Limit: failingMax})
	if err != nil {
		return nil, jobsProblem(err)
	}
	for n := range found.Jobs {
		v.Jobs = append(v.Jobs, c.jobRow(&found.Jobs[n]))
	}
	return v, nil
}
