package verify

import (
	"encoding/hex"
	"net/http"
	"time"

	"github.com/feedctl/feedctl/pageindex"
)

// An indexCheck compares the pages of a feed with the feed's page index, an extension of the specification
// (package pageindex). It holds one tile at a time.
type indexCheck struct {
	url   string
	pages map[string]pageindex.Page // by URL; nil if the tile could not be read
	full  bool
}

// checkIndex checks what the index says about a page that was read whole. A page without a next link is not
// necessarily listed yet.
func (w *feedWalk) checkIndex(s seen) error {
	if s.links.Timemap == "" || s.links.Next == "" || s.page.Size == 0 {
		return nil
	}
	listed, ok := w.index.pages[s.page.URL]
	if w.index.url != s.links.Timemap || w.index.pages != nil && !ok && !w.index.full { // it is another tile, or the tile has grown
		if err := w.readTile(s); err != nil {
			return err
		}
		listed, ok = w.index.pages[s.page.URL]
	}
	if w.index.pages == nil {
		return nil
	}
	violation := func(format string, args ...any) { w.report.add(PageIndex, s.page.URL, format, args...) }
	if !ok {
		violation("it has a next link, but its tile of the page index, %s, does not list it", w.index.url)
		return nil
	}
	if listed.Bytes != s.page.Size {
		violation("it has %d bytes, but the page index says %d", s.page.Size, listed.Bytes)
	}
	if listed.Entities != s.page.Entities {
		violation("it has %d entities, but the page index says %d", s.page.Entities, listed.Entities)
	}
	if last := listed.Last.Truncate(time.Second); !last.Equal(s.page.LastModified) {
		violation("its Last-Modified is %s, but the page index says %s", date(s.page.LastModified), date(last))
	}
	if listed.First.After(listed.Last) {
		violation("the page index says that its first entity is newer than its last")
	}
	for _, d := range [...]struct {
		name  string
		index []byte
		chain string
	}{{"self", listed.Self, s.chain.Self}, {"prev", listed.Prev, s.chain.Prev}} {
		if index := hex.EncodeToString(d.index); index != "" && d.chain != "" && index != d.chain {
			violation("its chain digest %s is %s, but the page index says %s", d.name, d.chain, index)
		}
	}
	return nil
}

// readTile reads the tile that a page links to. If the feed has no chain digests, its index may be that of
// another program, in another form, so it is not checked.
func (w *feedWalk) readTile(s seen) error {
	w.index = indexCheck{url: s.links.Timemap}
	response, err := w.fetch.do(w.ctx, http.MethodGet, s.links.Timemap)
	if err != nil {
		return w.unreachable(s.links.Timemap, err)
	}
	defer response.Body.Close()
	tile, err := pageindex.Parse(response.Body, response.Request.URL)
	switch {
	case err != nil && s.chain.Self != "":
		w.report.add(PageIndex, s.links.Timemap, "%v", err)
		return nil
	case err != nil:
		return nil
	}
	w.index.full, w.index.pages = tile.Full, make(map[string]pageindex.Page, len(tile.Pages))
	for _, p := range tile.Pages {
		w.index.pages[p.URL] = p
	}
	return nil
}
