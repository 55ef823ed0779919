package consumer

import (
	"context"
	"net/url"
	"slices"

	"github.com/feedctl/feedctl/pageindex"
)

// Limits for requesting pages ahead.
const (
	// pagesAhead is the largest number of pages after the next one that are requested ahead.
	pagesAhead = 8
	// firstWaits is how many pages a walk waits for before it requests the page index. A client that
	// follows a feed reaches the end of the feed before that, and never requests the index.
	firstWaits = 2
	// maxWaits is the maximum number of pages that a walk waits for before it requests an index
	// again that was of no use.
	maxWaits = 1024
)

// An ahead requests pages before the walk learns their URLs from next links. It takes the URLs from
// the feed's page index, which it does not trust: a page is used only if the page before it links to
// it, and is then checked like any other page. If the request for a page or the transfer of its body
// fails, the walk requests the page again, and only half as many pages are requested ahead until the
// next tile.
//
// A page ahead is buffered in memory, in a buffer of ReadAhead bytes. Larger pages are not requested
// ahead.
type ahead struct {
	s     *session
	pages []*fetch         // requested, in order
	todo  []pageindex.Page // the pages after them
	more  string           // URL of the tile after todo, if it is known
	last  string           // URL of the last page in the tiles read so far
	tile  *tileFetch       // under way
	most  int              // len(pages)
	waits int              // pages that the walk has waited for since it requested the index
	need  int              // the number of waits after which the walk requests the index again
	wrong bool             // the index contradicts the links of the pages
}

func newAhead(s *session) *ahead { return &ahead{s: s, most: pagesAhead, need: firstWaits} }

// take returns the page at url, which is the next page of the walk, if it was requested ahead, or
// else nil.
func (a *ahead) take(url string) *fetch {
	switch {
	case len(a.pages) > 0 && a.pages[0].url == url:
		next := a.pages[0]
		a.pages = slices.Delete(a.pages, 0, 1)
		if next.failed() {
			a.most = max(1, a.most/2)
		}
		return next
	case len(a.pages) == 0 && len(a.todo) > 0 && a.todo[0].URL == url:
		a.todo = a.todo[1:] // the walk requests it
	case len(a.pages) > 0 || len(a.todo) > 0:
		a.s.config.Logger.WarnContext(a.s.ctx, "page index contradicts the links of the pages, reading page after page", "page", shown(url))
		a.wrong = true
		a.drop()
	}
	return nil
}

// waited records that the walk has to wait for the next page.
func (a *ahead) waited() { a.waits++ }

// end records that the walk has come to the end of the feed.
func (a *ahead) end() { a.waits = 0 }

// extend requests further pages. The page at next, which follows page p, has already been requested
// by the walk.
func (a *ahead) extend(p *Page, next string) {
	if a.wrong {
		return
	}
	a.receive(next)
	switch {
	case a.tile != nil:
	case a.more != "" && len(a.todo) < 2*pagesAhead:
		a.tile, a.more = a.s.fetchTile(a.more), ""
		a.tile.after = true
	case len(a.pages)+len(a.todo) == 0 && a.waits >= a.need && p.Links.Timemap != "":
		a.tile, a.waits = a.s.fetchTile(p.Links.Timemap), 0
	}
	for len(a.todo) > 0 && len(a.pages) < a.most && a.todo[0].Bytes < int64(a.s.config.ReadAhead) && !slices.ContainsFunc(a.pages, (*fetch).failed) {
		a.pages = append(a.pages, a.s.fetchAhead(a.todo[0].URL))
		a.todo = a.todo[1:]
	}
}

// receive adds the pages of a tile, if one has arrived.
func (a *ahead) receive(next string) {
	t := a.tile
	if t == nil || !t.arrived() {
		return
	}
	a.tile = nil
	if t.err != nil {
		a.s.config.Logger.DebugContext(a.s.ctx, "page index cannot be used", "error", t.err)
		a.need = min(2*a.need, maxWaits)
		return
	}
	pages := t.Pages
	at := slices.IndexFunc(pages, func(p pageindex.Page) bool { return p.URL == next })
	follows := t.after && (len(a.pages)+len(a.todo) > 0 || next == a.last)
	if at < 0 && !follows || at == len(pages)-1 && t.Next == "" || len(pages) == 0 {
		a.need = min(2*a.need, maxWaits)
		return
	}
	a.most, a.need, a.more, a.last = min(2*a.most, pagesAhead), firstWaits, t.Next, pages[len(pages)-1].URL
	a.todo = append(a.todo, pages[at+1:]...)
}

// drop forgets all pages that were requested ahead.
func (a *ahead) drop() {
	for _, f := range a.pages {
		f.cancel()
		a.s.workers.Go(f.abandon)
	}
	a.pages, a.todo, a.more, a.tile = nil, nil, "", nil
}

// fetchAhead requests a page in the background, without retries, and reads it into memory.
func (s *session) fetchAhead(url string) *fetch {
	ctx, cancel := context.WithCancel(s.ctx)
	f := &fetch{r: s.newReading(url), url: url, cancel: cancel, done: make(chan struct{})}
	f.r.ahead = true
	s.workers.Go(func() {
		defer close(f.done)
		resp, err := s.tryWithin(ctx, Request{URL: url})
		if err == nil {
			end := resp.cancel
			resp.cancel = func() { end(); cancel() }
			err = f.r.start(resp)
		}
		if f.err = err; err != nil {
			cancel()
		}
	})
	return f
}

// A tileFetch requests a tile of the page index in the background.
type tileFetch struct {
	*pageindex.Tile
	err   error
	after bool // the tile is the one after the tile in use
	done  chan struct{}
}

func (s *session) fetchTile(at string) *tileFetch {
	t := &tileFetch{done: make(chan struct{})}
	s.workers.Go(func() {
		defer close(t.done)
		t.Tile, t.err = s.getTile(at)
	})
	return t
}

func (t *tileFetch) arrived() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

func (s *session) getTile(at string) (*pageindex.Tile, error) {
	resp, err := s.try(Request{URL: at, Kind: PageIndex})
	if err != nil {
		return nil, err
	}
	defer resp.cancel()
	defer resp.Body.Close()
	base, err := url.Parse(resp.URL)
	if err != nil {
		return nil, err
	}
	return pageindex.Parse(resp.Body, base)
}
