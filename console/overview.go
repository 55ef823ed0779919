package console

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/feedctl/feedctl/chain"
)

// headsWait is how long a page waits for feeds to be polled.
const headsWait = 30 * time.Millisecond

// overviewView is what the overview shows.
type overviewView struct {
	page
	Feeds []feedRow
}

// A feedRow is a feed in a list.
type feedRow struct {
	Name   string
	State  string
	Last   time.Time // of the newest entity
	Newest int64     // number of the newest page
}

// getOverview answers "/".
func (c *Console) getOverview(*http.Request) (content, error) {
	v := &overviewView{page: page{Title: "Overview", Command: "feedctl list --store " + c.config.StoreName}}
	heads, _ := c.config.Feeds.Heads(headsWait)
	slices.SortFunc(heads, func(a, b *chain.Page) int { return cmp.Compare(a.Feed, b.Feed) })
	for _, p := range heads {
		v.Feeds = append(v.Feeds, feedRow{Name: p.Feed, State: "quiet", Last: p.Last, Newest: p.Number})
	}
	return v, nil
}
