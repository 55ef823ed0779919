package console

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feedstore"
	"github.com/feedctl/feedctl/internal/shell"
)

// pagesAPage is how many pages of a feed are listed at once.
const pagesAPage = 50

// pagesView is a part of the list of the pages of a feed, newest first.
type pagesView struct {
	page
	Feed   string
	To     string // the page number or time to jump to, as entered
	Target int64  // the page that To leads to; 0 for none
	Floor  int64
	Newest *chain.Page
	Rows   []pageRow
	Newer  string // URL; "" at the end
	Older  string // URL; "" at the end
}

// A pageRow is a page in a list.
type pageRow struct {
	*chain.Page
	Digest string // of the chain up to here; "" while the page is open
}

// getPages answers requests for "/pages". In the query, "feed" is the feed, "from" is the page to begin with, and "to"
// is a number or a time to jump to.
func (c *Console) getPages(r *http.Request) (content, error) {
	ctx, query := r.Context(), r.URL.Query()
	name := query.Get("feed")
	f, newest, floor, err := c.config.Feeds.Look(ctx, name)
	if err != nil {
		return nil, err
	}
	v := &pagesView{
		page: page{Title: "Pages of " + name, Command: shell.Line("feedctl", "inspect", c.config.StoreName+"#"+name)},
		Feed: name, To: strings.TrimSpace(query.Get("to")), Floor: floor, Newest: newest,
	}
	first, err := parameter(r, "from", 0)
	if err != nil {
		return nil, err
	}
	if first == 0 {
		first = newest.Number
	}
	first = max(first, floor+pagesAPage-1)
	if v.To != "" {
		if v.Target, err = c.find(ctx, f, v.To, newest, floor); err != nil {
			return nil, err
		}
		first = v.Target + 2 // so that newer pages are shown above it
	}
	first = min(first, newest.Number)
	if v.Rows, err = pageRows(ctx, f, max(first-pagesAPage+1, floor), first, newest); err != nil {
		return nil, err
	}
	if first < newest.Number {
		v.Newer = pagesURL(name, first+pagesAPage)
	}
	if older := first - pagesAPage; older >= floor {
		v.Older = pagesURL(name, older)
	}
	return v, nil
}

// pagesURL returns the URL of the list of the pages of a feed, from the given number down.
func pagesURL(feed string, from int64) string {
	return "pages?" + url.Values{"feed": {feed}, "from": {strconv.FormatInt(from, 10)}}.Encode()
}

// find returns the number of the page that text refers to, by number or by time. A time refers to the first page that
// has an entity of this time or later or, if there is none, to the newest page.
func (c *Console) find(ctx context.Context, f *feedstore.Feed, text string, newest *chain.Page, floor int64) (int64, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return min(max(n, floor), newest.Number), nil
	}
	t, ok := parseMoment(text)
	if !ok {
		return 0, badRequest("%.60q is neither the number of a page nor a time such as 2026-11-27T08:00Z or 2026-11-27.", text)
	}
	n, err := c.config.Feeds.PageBefore(ctx, f.Name(), t)
	if err != nil || n >= newest.Number {
		return newest.Number, err
	}
	if p, err := f.Stat(ctx, n); err != nil || !p.Last.Before(t) {
		return n, err // n is the oldest page
	}
	return n + 1, nil
}

// pageRows returns the rows of the pages from first to last, newest first, without those that were pruned in the
// meantime.
func pageRows(ctx context.Context, f *feedstore.Feed, first, last int64, newest *chain.Page) (rows []pageRow, err error) {
	pages, err := statPages(ctx, f, sampled(first, last, pagesAPage), newest)
	for _, p := range slices.Backward(pages) {
		row := pageRow{Page: p}
		if p.Closed {
			row.Digest = p.Digest()
		}
		rows = append(rows, row)
	}
	return rows, err
}
