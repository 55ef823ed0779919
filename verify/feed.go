package verify

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/feedctl/feedctl/feed"
)

// Feed checks the feed whose entry point is url, which is the URL of the newest page, or of any
// other page of the feed.
//
// Violations are in the report. Feed returns an error only if it could not check the feed: ctx
// ended, a temporary file could not be written, or the entry point is not available (see
// [StatusError]). If the status of the entry point is 204, the feed is empty.
func Feed(ctx context.Context, url string, c Config) (report *Report, err error) {
	v, err := newVisit(ctx, c, "feed", url)
	if err != nil {
		return nil, err
	}
	v.ids = newIDs(c.TempDir, idsInMemory)
	defer func() { err = errors.Join(err, v.ids.close(), v.pages.close()) }()

	w := feedWalk{visit: v}
	if err := w.crawl(url); err != nil {
		return nil, err
	}
	if err := w.walk(); err != nil {
		return nil, err
	}
	if err := v.duplicates(); err != nil {
		return nil, err
	}
	v.compareOrder(c.Since)
	return v.report, v.finish()
}

// A feedWalk follows links back to the oldest page and then forward, reading all pages.
type feedWalk struct {
	*visit
	cut    bool       // there may be pages before the oldest one listed
	before feed.Chain // of the page that was read last; zero if reading failed
	index  indexCheck
}

// head returns what the headers of a page say, without reading the body.
func (v *visit) head(url string) (seen, error) {
	s, err := v.ask(http.MethodHead, url)
	switch {
	case hasStatus(err, http.StatusMethodNotAllowed, http.StatusNotImplemented):
		return v.ask(http.MethodGet, url)
	case err != nil || !s.hasLinks || s.links.Self != "":
		return s, err
	}
	full, err := v.ask(http.MethodGet, url)
	if err == nil && full.links.Self != "" {
		v.report.add(Head, url, "HEAD has no rel=self link, but GET has %s", full.links.Self)
	}
	return full, err
}

func (v *visit) ask(method, url string) (seen, error) {
	response, err := v.fetch.do(v.ctx, method, url)
	if err != nil {
		return seen{}, err
	}
	var s seen
	links, err := feed.ParseLinks(response.Request.URL, response.Header)
	s.links, s.hasLinks = links, err == nil // errors are reported when the page is read
	if t, err := feed.ParseTime(response.Header.Get("Last-Modified")); err == nil {
		s.modified = t
	}
	s.chain, _ = feed.ParseChain(response.Header) // reported when the page is read
	return s, response.Body.Close()
}

// crawl follows prev links back from the entry point and lists the pages.
func (w *feedWalk) crawl(entry string) error {
	s, err := w.head(entry)
	if hasStatus(err, http.StatusNoContent) {
		return nil // an empty feed has no pages
	}
	if err != nil {
		return fmt.Errorf("check feed %s: %w", entry, err)
	}
	at := w.permanent(entry, s)
	w.pages.add(listed{url: at, nameless: at != s.links.Self, modified: s.modified, chain: s.chain, final: s.links.Next != ""})
	for s.links.Prev != "" {
		prev := s.links.Prev
		if w.pages.count >= w.most {
			w.report.add(Loop, at, "it is %d pages from the entry point, but its rel=prev leads to an even older one", w.pages.count)
			w.cut = true
			break
		}
		if w.pages.has(prev) {
			w.report.add(Loop, at, "its rel=prev leads to %s, which comes after it", prev)
			w.cut = true
			break
		}
		before, err := w.head(prev)
		if err != nil {
			if isGone(err) && w.hasNoPrev(at) {
				break // pruned a moment ago
			}
			if err := w.unreachable(prev, err); err != nil {
				return err
			}
			w.cut = true
			break
		}
		w.pages.add(listed{url: prev, modified: before.modified, chain: before.chain, final: before.links.Next != ""})
		at, s = prev, before
	}
	w.pages.reverse()
	return w.pages.err
}

// permanent returns the permanent URL of the page at the entry point, which may be an alias. This
// is the URL in the page's rel=self link, unless there is no page at that URL, or one with another
// prev link. If HEAD fails for another reason, the error is reported when the page is read.
func (w *feedWalk) permanent(entry string, s seen) string {
	if s.links.Self == "" || s.links.Self == entry {
		return entry
	}
	self, err := w.head(s.links.Self)
	// If the prev link is missing, the page before may have been pruned in the meantime.
	otherPage := err == nil && self.links.Prev != "" && self.links.Prev != s.links.Prev
	if isGone(err) || otherPage {
		return entry // the wrong self link is reported when the page is read
	}
	return s.links.Self
}

// hasNoPrev reports whether a page has no link to an older page now.
func (v *visit) hasNoPrev(url string) bool {
	s, err := v.head(url)
	return err == nil && s.hasLinks && s.links.Prev == ""
}

// pruned returns the index of the first page after the i-th that still exists and has no prev link:
// the pages before it have been pruned since they were listed. err is the error from reading the
// i-th page; if that error has another cause, pruned returns i.
func (w *feedWalk) pruned(i int, err error) int {
	for j := i + 1; isGone(err) && j < w.pages.count; j++ {
		var s seen
		if s, err = w.head(w.pages.at(j).url); err == nil && s.hasLinks && s.links.Prev == "" {
			return j
		}
	}
	return i
}

// walk reads the listed pages, and then the pages that follow the last of them.
func (w *feedWalk) walk() error {
	for i := 0; i < w.pages.count; i++ {
		p := w.pages.at(i)
		if w.pages.err != nil {
			return w.pages.err
		}
		before := w.before
		w.before = feed.Chain{}
		response, err := w.fetch.do(w.ctx, http.MethodGet, p.url)
		if err != nil {
			if oldest := w.pruned(i, err); oldest > i {
				i = oldest - 1
				continue
			}
			if err := w.unreachable(p.url, err); err != nil {
				return err
			}
			continue
		}
		s, err := w.read(i, response)
		if err != nil {
			return err
		}
		if p.final && !s.modified.IsZero() && !s.modified.Equal(p.modified) {
			w.report.add(Head, p.url, "HEAD gives Last-Modified %s, GET gives %s", date(p.modified), date(s.modified))
		}
		if s.hasLinks {
			w.checkChain(i, before, s.chain)
			w.before = s.chain
			w.checkPrev(i, s.links.Prev)
			w.checkNext(i, s.links.Next)
			if err := w.checkIndex(s); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkChain compares the digests that the i-th page names with that of the page before it, and
// with those in the response to HEAD.
func (w *feedWalk) checkChain(i int, before, now feed.Chain) {
	p := w.pages.at(i)
	if before.Self != "" && now.Prev != "" && now.Prev != before.Self {
		w.report.add(Timeline, p.url, "it follows a page with the digest %s, but the page before it, %s, has %s", now.Prev, w.pages.at(i-1).url, before.Self)
	}
	if feed.Differ(before.Identity.ID, now.Identity.ID) {
		w.report.add(Timeline, p.url, "it belongs to the feed with the identity %s, the page before it, %s, to %s", now.Identity.ID, w.pages.at(i-1).url, before.Identity.ID)
	}
	if before.Self != "" && now.Prev == "" && now.Self != "" {
		w.report.add(Timeline, p.url, "it does not have the digest of the previous page")
	}
	for _, d := range [...]struct{ name, head, get string }{{"self", p.chain.Self, now.Self}, {"prev", p.chain.Prev, now.Prev}} {
		if d.head != "" && d.get != "" && d.head != d.get {
			w.report.add(Timeline, p.url, "HEAD has the chain digest %s=%s, but GET has %s", d.name, d.head, d.get)
		}
	}
}

func date(t time.Time) string {
	if t.IsZero() {
		return "none"
	}
	return feed.FormatTime(t)
}

// checkPrev checks that the i-th page names the one before it.
func (w *feedWalk) checkPrev(i int, prev string) {
	want := ""
	if i > 0 {
		want = w.pages.at(i - 1).url
	} else if w.cut {
		return
	}
	if prev == want {
		return
	}
	url := w.pages.at(i).url
	// The link may have been removed since the crawl; if so, it is also missing in the response to
	// HEAD.
	if s, err := w.head(url); err != nil || s.links.Prev != prev {
		w.report.add(Head, url, "HEAD gives rel=prev %s, GET gives %s", link(s.links.Prev), link(prev))
	} else if prev != "" {
		w.report.add(Symmetry, url, "its rel=prev is %s, but the page before it is %s", prev, link(want))
	}
}

// checkNext checks that the i-th page names the one after it. If it is the last page of the list
// and names another one, that page is added to the list.
func (w *feedWalk) checkNext(i int, next string) {
	url := w.pages.at(i).url
	if i+1 < w.pages.count {
		if after := w.pages.at(i + 1); next != after.url && (next == "" || !after.nameless) {
			w.report.add(Symmetry, url, "its rel=next is %s, but the page that names it as prev is %s", link(next), after.url)
		}
		return
	}
	switch {
	case next == "":
	case !w.pages.has(next) && w.pages.count >= w.most:
		w.report.add(Loop, url, "it is the last of %d pages, but its rel=next leads to a newer one", w.pages.count)
	case !w.pages.has(next):
		w.pages.add(listed{url: next})
	case !w.cut: // otherwise the loop was found during the crawl
		w.report.add(Loop, url, "its rel=next leads to %s, which comes before it", next)
	}
}

func link(url string) string {
	if url == "" {
		return "missing"
	}
	return url
}

// duplicates reports the Content-IDs that occur more than once.
func (v *visit) duplicates() error {
	return v.ids.duplicates(func(first, again occurrence) {
		v.report.addPart(DuplicateID, v.pages.at(int(again.page)).url, int(again.part), again.offset,
			"its Content-ID is that of part %d of page %d, %s", first.part, first.page+1, v.pages.at(int(first.page)).url)
	})
}
