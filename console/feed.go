package console

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/feedstore"
	"github.com/feedctl/feedctl/internal/shell"
	"github.com/feedctl/feedctl/snapshot/snapshots"
	"github.com/feedctl/feedctl/storage"
)

// Limits of the page of a feed.
const (
	newestEntities = 50
	newestPages    = 4   // pages that are read for newestEntities
	chartSamples   = 128 // pages whose metadata is read for a chart
	chartFar       = 24  // chartSamples for a remote store
	feedSnapshots  = 5
)

// feedView is the page of a feed.
type feedView struct {
	page
	Name     string
	State    string
	Usual    time.Duration // between entities; 0 if that is less than a second, or not known
	Newest   *chain.Page
	Floor    int64
	Pages    int64
	Total    amount
	Identity feed.Identity
	Digest   string // of the chain
	DigestOf int64  // the last page that it covers; 0 if there is none
	Chart    *chart
	entitiesTable
	MoreEntities bool
	LastID       string   // Content-ID of the newest entity
	Snapshots    []string // IDs, newest first
	More         bool     // there are more snapshots
	Live         string   // URL of this page, for script
	Actions      []link

	HasReaders bool
	Readers    ReadersSummary
}

// getFeed answers requests for "/feed". In the query, "name" is the feed, and "range" is the time that the chart shows.
func (c *Console) getFeed(r *http.Request) (content, error) {
	ctx, query := r.Context(), r.URL.Query()
	name := query.Get("name")
	f, newest, floor, err := c.config.Feeds.Look(ctx, name)
	if err != nil {
		return nil, err
	}
	now := c.config.Now()
	v := &feedView{
		page: page{Title: name, Command: shell.Line("feedctl", "inspect", c.config.StoreName+"#"+name)},
		Name: name, State: stateOf(newest, now), Usual: usualGap(newest).Truncate(time.Second), Newest: newest, Floor: floor, Pages: newest.Number - floor + 1,
		Identity: f.Identity(), Digest: newest.Prev, DigestOf: newest.Number - 1, LastID: cut(newest.LastContentID, maxText), Live: rangeURL(name, query.Get("range")),
	}
	if newest.Closed {
		v.Digest, v.DigestOf = newest.Digest(), newest.Number
	}
	v.Actions = c.feedActions(r, name)
	if c.config.Readers != nil {
		v.HasReaders, v.Readers = true, c.config.Readers.Summary(name)
	}
	all, err := readHistory(ctx, f, floor, newest, c.samples())
	if err != nil {
		return nil, err
	}
	v.Total = all.total()
	if v.Chart, err = c.chart(ctx, f, all, newest, query.Get("range")); err != nil {
		return nil, err
	}
	if v.Entities, err = c.newestEntities(ctx, f, newest, floor); err != nil {
		return nil, err
	}
	v.MoreEntities = v.Total.Entities > int64(len(v.Entities))
	ids, _, err := snapshots.List(ctx, c.config.Store, name)
	if err != nil {
		return nil, err
	}
	slices.Reverse(ids)
	v.Snapshots, v.More = ids[:min(len(ids), feedSnapshots)], len(ids) > feedSnapshots
	return v, nil
}

// samples returns how many pages of a feed are read at most for a chart.
func (c *Console) samples() int {
	if storage.PropertiesOf(c.config.Store).Remote {
		return chartFar
	}
	return chartSamples
}

// chart returns the chart of a feed for a range; all is the history of the whole feed.
func (c *Console) chart(ctx context.Context, f *feedstore.Feed, all *history, newest *chain.Page, name string) (*chart, error) {
	now := c.config.Now()
	span, shown := chosen(name, now, newest.Last), all
	from, to := span.bounds(now, all.pages[0].First, newest.Last)
	if span.step != 0 && !all.exact() && newest.Last.After(from) {
		n, err := c.config.Feeds.PageBefore(ctx, f.Name(), from)
		if err != nil {
			return nil, err
		}
		if shown, err = readHistory(ctx, f, max(n, all.before+1), newest, c.samples()); err != nil {
			return nil, err
		}
	}
	drawn := newChart(shown.series(from, to, span.steps))
	for _, s := range spans() {
		drawn.Ranges = append(drawn.Ranges, rangeLink{URL: rangeURL(f.Name(), s.name), Text: s.text, Current: s.name == span.name})
	}
	return drawn, nil
}

// newestEntities returns the newest entities, newest first, from the newest pages.
func (c *Console) newestEntities(ctx context.Context, f *feedstore.Feed, newest *chain.Page, floor int64) (rows []entityRow, err error) {
	p := newest
	for n := newest.Number; n >= floor && n > newest.Number-newestPages; n-- {
		if n < newest.Number {
			if p, err = f.Stat(ctx, n); err != nil {
				return rows, err
			}
		}
		if p.Size > maxWhole {
			break // the last entities of a large page can be found only by reading it from its beginning
		}
		found, _, err := c.listEntities(ctx, f, p, max(p.Entities-newestEntities+len(rows), 0), 0, newestEntities-len(rows))
		if err != nil {
			return rows, err
		}
		slices.Reverse(found)
		if rows = append(rows, found...); len(rows) == newestEntities {
			break
		}
	}
	return rows, nil
}
