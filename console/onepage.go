package console

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feedstore"
	"github.com/feedctl/feedctl/internal/shell"
	"github.com/feedctl/feedctl/layout"
)

// onePageView is a page of a feed: its entities.
type onePageView struct {
	page
	Feed   string
	Page   *chain.Page
	Digest string
	First  int // index of the first entity that is shown
	Last   int
	entitiesTable
	Older      string // URLs of the neighbouring pages; "" at the ends
	Newer      string
	Back       string // URL of the first entities; "" if these are shown
	Next       string // URL of the next entities; "" if there are none
	Unverified bool   // the page is too large to be verified
}

// getPage answers requests for "/page". In the query, "feed" is the feed, "n" is the page, and "from" is the index of
// the first entity; if the page is too large to read as a whole, "at" is the offset of that entity.
func (c *Console) getPage(r *http.Request) (content, error) {
	ctx, name := r.Context(), r.URL.Query().Get("feed")
	n, err := parameter(r, "n", 1)
	if err != nil {
		return nil, err
	}
	from, err := parameter(r, "from", 0)
	if err != nil {
		return nil, err
	}
	at, err := parameter(r, "at", 0)
	if err != nil {
		return nil, err
	}
	f, newest, floor, err := c.config.Feeds.Look(ctx, name)
	if err != nil {
		return nil, err
	}
	p := newest
	if n != newest.Number {
		if p, err = existing(ctx, f, n, newest, floor); err != nil {
			return nil, err
		}
	}
	if from > 0 && from >= int64(p.Entities) || at >= p.Size {
		return nil, badRequest("The page has only %d entities.", p.Entities)
	}
	v := &onePageView{
		page: page{Title: "Page " + strconv.FormatInt(n, 10) + " of " + name, Command: c.pageCommand(p)},
		Feed: name, Page: p, First: int(from), Unverified: p.Size > maxWhole,
		entitiesTable: entitiesTable{Absolute: true},
	}
	if p.Closed {
		v.Digest = p.Digest()
	}
	var next int64
	if v.Entities, next, err = c.listEntities(ctx, f, p, int(from), at, entitiesAPage); err != nil {
		return nil, err
	}
	end := int(from) + len(v.Entities)
	v.Last = end - 1
	if from > 0 {
		v.Back = pageURL(name, n)
	}
	if end < p.Entities {
		v.Next = pageURL(name, n) + "&from=" + strconv.Itoa(end)
		if next > 0 {
			v.Next += "&at=" + strconv.FormatInt(next, 10)
		}
	}
	if n > floor {
		v.Older = pageURL(name, n-1)
	}
	if n < newest.Number {
		v.Newer = pageURL(name, n+1)
	}
	return v, nil
}

// entitiesAPage is how many entities the page lists.
const entitiesAPage = 50

// existing returns page n of a feed, or an error if it does not exist.
func existing(ctx context.Context, f *feedstore.Feed, n int64, newest *chain.Page, floor int64) (*chain.Page, error) {
	switch {
	case n > newest.Number:
		return nil, chain.ErrNoPage
	case n < floor:
		return nil, chain.ErrPruned
	}
	return f.Stat(ctx, n)
}

// pageCommand returns the command line that shows a page.
func (c *Console) pageCommand(p *chain.Page) string {
	if c.config.FeedsURL == "" {
		return shell.Line("feedctl", "inspect", c.config.StoreName+"#"+p.Feed)
	}
	return c.curl(layout.FeedPagePath(p.Feed, p.Number))
}

// curl returns the command line that requests a path of the server of the feeds.
func (c *Console) curl(path string, options ...string) string {
	command := append([]string{"curl"}, options...)
	if len(c.config.ReadAuth) > 0 {
		command = append(command, "-u", "USER")
	}
	return shell.Line(append(command, strings.TrimSuffix(c.config.FeedsURL, "/")+path)...)
}
