package verify

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/page"
)

// maxWhole is the size, in bytes, up to which bodies are held in memory.
const maxWhole = 64 << 10

// A visit is one check of a feed or a snapshot.
type visit struct {
	ctx     context.Context
	fetch   *fetcher
	report  *Report
	since   map[string]PageState // by URL
	ids     *ids                 // nil in a snapshot
	reader  *page.Reader         // kept for its buffers
	scratch []byte

	pages pageList  // oldest first
	most  int       // maximum number of pages to list
	whole int       // number of pages that could be read to their closing delimiter
	last  time.Time // Last-Modified of the entity that was read last
}

func newVisit(ctx context.Context, c Config, kind, url string) (*visit, error) {
	f, err := newFetcher(c, url)
	if err != nil {
		return nil, err
	}
	v := &visit{
		ctx: ctx, fetch: f, report: newReport(kind, url, c), pages: pageList{dir: c.TempDir}, most: cmp.Or(c.MaxPages, defaultMaxPages),
		since:  make(map[string]PageState),
		reader: page.NewReader(strings.NewReader(""), "x", page.ReaderOptions{MaxWhole: maxWhole}),
	}
	if c.KeepState || c.Since != nil {
		v.report.State = &State{URL: url, Pages: []PageState{}}
	}
	if c.Since != nil {
		for _, p := range c.Since.Pages {
			v.since[p.URL] = p
		}
	}
	return v, nil
}

func (v *visit) isFeed() bool { return v.ids != nil }

// finish numbers the pages in the report and sorts the violations.
func (v *visit) finish() error {
	urls := make(map[string]bool)
	for i := range v.report.Violations {
		urls[v.report.Violations[i].URL] = true
	}
	numbers := v.pages.numbers(urls)
	v.report.finish(func(url string) int { return numbers[url] })
	return v.pages.err
}

// unreachable records a request that failed, and returns an error if ctx has ended.
func (v *visit) unreachable(url string, err error) error {
	if v.ctx.Err() != nil {
		return fmt.Errorf("check %s: %w", url, context.Cause(v.ctx))
	}
	v.report.add(Reachable, url, "%v", err)
	return nil
}

// seen holds what the headers of a response say about a page.
type seen struct {
	links    feed.Links
	hasLinks bool // the links could be read
	modified time.Time
	chain    feed.Chain
	page     PageState // only set if the whole response was read
}

// read checks the response to GET for the i-th page. It returns only errors of the check itself;
// violations are added to the report.
func (v *visit) read(i int, response *http.Response) (seen, error) {
	c := pageCheck{visit: v, url: v.pages.at(i).url, index: i}
	c.now.URL = c.url
	c.was, c.known = v.since[c.url]
	s := c.headers(response)
	c.now.LastModified = s.modified
	c.now.Final = !v.isFeed() || s.links.Next != ""

	whole, long := sha256.New(), sha512.New()
	body := &bodyReader{reader: io.TeeReader(response.Body, whole)}
	digests, err := reprDigests(response.Header)
	if err != nil {
		v.report.add(ReprDigest, c.url, "%v", err)
	}
	if digests.sha512 != nil {
		body.reader = io.TeeReader(body.reader, long)
	}
	if boundary, ok := c.boundary(response.Header); ok {
		if err := c.entities(body, boundary); err != nil {
			return s, errors.Join(err, response.Body.Close())
		}
	}
	body.drain()
	if err := response.Body.Close(); err != nil && body.err == nil {
		body.err = err
	}
	v.report.Pages++
	v.report.Bytes += body.size
	if body.err != nil {
		return s, v.unreachable(c.url, fmt.Errorf("the body ends after %d bytes: %w", body.size, body.err))
	}
	digests.check(v.report, c.url, whole, long)
	c.now.Size, c.now.SHA256 = body.size, Sum(whole.Sum(nil))
	c.finish()
	s.page = c.now
	return s, nil
}

// A bodyReader reads the body of a page, counts its bytes and keeps the first error.
type bodyReader struct {
	reader io.Reader
	size   int64
	err    error // other than io.EOF
}

func (b *bodyReader) Read(p []byte) (int, error) {
	n, err := b.reader.Read(p)
	b.size += int64(n)
	if err != nil && err != io.EOF {
		b.err = err
	}
	return n, err
}

// drain reads the rest of the body: the epilogue, or everything if the body is not a page.
func (b *bodyReader) drain() {
	if b.err == nil {
		_, b.err = io.Copy(io.Discard, b)
	}
}

func (c *pageCheck) headers(response *http.Response) seen {
	var s seen
	s.modified = c.lastModified(response.Header)
	if !c.isFeed() {
		return s // a snapshot's pages have no links
	}
	var err error
	if s.links, err = feed.ParseLinks(response.Request.URL, response.Header); err != nil {
		c.report.add(LinkSyntax, c.url, "%v", err)
		return s
	}
	s.hasLinks = true
	if s.chain, err = feed.ParseChain(response.Header); err != nil {
		c.report.add(Timeline, c.url, "%v", err)
	}
	c.selfLink(s.links.Self, response.Request.URL)
	if s.links.Next == "" && isImmutable(response.Header) {
		c.report.add(Caching, c.url, "it has no next link and so may still change, but is declared immutable")
	}
	return s
}

func (c *pageCheck) lastModified(h http.Header) time.Time {
	value := h.Get("Last-Modified")
	if value == "" {
		c.report.add(PageHeader, c.url, "it has no Last-Modified")
		return time.Time{}
	}
	t, err := feed.ParseTime(value)
	if err != nil {
		c.report.add(PageHeader, c.url, "%v", err)
	} else if day, ok := weekday(value, t); !ok {
		c.report.add(PageHeader, c.url, "its Last-Modified is %.100q, but that day is a %s", value, day)
	}
	return t
}

// selfLink checks that a page links to itself, by the URL that was requested or the URL to which
// the request was redirected.
func (c *pageCheck) selfLink(self string, answered *url.URL) {
	switch self {
	case "":
		c.report.add(SelfLink, c.url, "it has no rel=self link")
	case c.url, answered.String():
	default:
		c.report.add(SelfLink, c.url, "its rel=self is %s, another page", self)
	}
}

func (c *pageCheck) boundary(h http.Header) (string, bool) {
	if coding := h.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		c.report.add(MediaType, c.url, "it has Content-Encoding %q, which was not requested", coding)
		return "", false
	}
	boundary, err := page.Boundary(h.Get("Content-Type"))
	if err != nil {
		c.report.add(MediaType, c.url, "its Content-Type is %q: %v", h.Get("Content-Type"), err)
		return "", false
	}
	if !quotesEnd(h.Get("Content-Type")) {
		c.report.add(MediaType, c.url, "its Content-Type is %q, with an unterminated quoted string", h.Get("Content-Type"))
	}
	return boundary, true
}

// weekday returns the day of the week of t, and reports whether text, an HTTP date, begins with it.
func weekday(text string, t time.Time) (day string, ok bool) {
	day = t.Weekday().String()
	return day, strings.HasPrefix(strings.TrimSpace(text), day[:3])
}

// quotesEnd reports whether every quoted string (RFC 9110, section 5.6.4) in a
// header has its closing quote.
func quotesEnd(value string) bool {
	quoted := false
	for i := 0; i < len(value); i++ {
		switch {
		case value[i] == '"':
			quoted = !quoted
		case value[i] == '\\' && quoted:
			i++
		}
	}
	return !quoted
}

// isImmutable reports whether Cache-Control contains immutable (RFC 8246).
func isImmutable(h http.Header) bool {
	for _, value := range h.Values("Cache-Control") {
		for directive := range strings.SplitSeq(value, ",") {
			if strings.EqualFold(strings.TrimSpace(directive), "immutable") {
				return true
			}
		}
	}
	return false
}
