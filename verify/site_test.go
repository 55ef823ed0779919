package verify_test

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/feedctl/feedctl/verify"
)

const boundary = "0123456789abcdef"

// An entity is a part of a page: the lines of its header, and its body.
type entity struct {
	header []string
	body   string
}

func (e *entity) set(name, value string) {
	e.remove(name)
	e.header = append(e.header, name+": "+value)
}

func (e *entity) remove(name string) {
	kept := e.header[:0:0]
	for _, line := range e.header {
		if !strings.HasPrefix(line, name+":") {
			kept = append(kept, line)
		}
	}
	e.header = kept
}

// A fakePage is a page or an index that a site serves.
type fakePage struct {
	header   http.Header
	entities []*entity
	document func([]byte) []byte // changes the response
	status   int                 // 200 if 0
	body     string              // replaces the entities
	head     func(http.Header)   // changes the header of the response to HEAD
	redirect string
}

func (p *fakePage) bytes() []byte {
	var b bytes.Buffer
	b.WriteString(p.body)
	for _, e := range p.entities {
		fmt.Fprintf(&b, "--%s\r\n%s\r\n\r\n%s\r\n", boundary, strings.Join(e.header, "\r\n"), e.body)
	}
	if p.entities != nil {
		fmt.Fprintf(&b, "--%s--\r\n", boundary)
	}
	if p.document != nil {
		return p.document(b.Bytes())
	}
	return b.Bytes()
}

// A site is a server under the control of a test.
type site struct {
	t      *testing.T
	server *httptest.Server

	mu       sync.Mutex
	pages    map[string]*fakePage // by path
	asked    []string             // "METHOD path", in order
	before   func(request string) // called before each response
	noHead   bool                 // the response to every HEAD request is 405
	observer func(*http.Request)
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, pages: make(map[string]*fakePage)}
	s.server = httptest.NewServer(s)
	t.Cleanup(s.server.Close)
	return s
}

func (s *site) url(path string) string { return s.server.URL + path }

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	request := r.Method + " " + r.URL.Path
	s.asked = append(s.asked, request)
	if s.before != nil {
		s.before(request)
	}
	if s.observer != nil {
		s.observer(r)
	}
	p := s.pages[r.URL.Path]
	switch {
	case p == nil:
		http.NotFound(w, r)
		return
	case p.redirect != "":
		http.Redirect(w, r, p.redirect, http.StatusFound)
		return
	case s.noHead && r.Method == http.MethodHead:
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	case p.status != 0:
		w.WriteHeader(p.status)
		return
	}
	maps.Copy(w.Header(), p.header)
	if r.Method == http.MethodHead && p.head != nil {
		p.head(w.Header())
	}
	if r.Method == http.MethodGet {
		_, _ = w.Write(p.bytes())
	}
}

// newFeed returns a feed of three pages, oldest first, with two entities each, a second apart.
func newFeed(t *testing.T) (*site, []*fakePage) {
	s := newSite(t)
	var pages []*fakePage
	for i := range 3 {
		p := feedPage(i)
		s.pages[path(i)] = p
		pages = append(pages, p)
		s.link(i, i-1, i+1)
	}
	pages[0].header.Set("Cache-Control", "public, max-age=31536000, immutable")
	pages[1].header.Set("Cache-Control", "public, max-age=31536000, immutable")
	pages[2].header.Set("Cache-Control", "no-cache")
	s.link(0, -1, 1)
	s.link(2, 1, -1)
	s.pages["/feeds/zones"] = pages[2]
	return s, pages
}

func path(i int) string { return fmt.Sprintf("/feeds/zones/pages/%d", i+1) }

func clock(i, j int) string { return fmt.Sprintf("Mon, 27 Nov 2023 03:%02d:%02d GMT", i, j) }

func feedPage(i int) *fakePage {
	p := &fakePage{header: http.Header{
		"Content-Type":  {`multipart/mixed; boundary="` + boundary + `"`},
		"Last-Modified": {clock(i, 1)},
	}}
	for j := range 2 {
		p.entities = append(p.entities, feedEntity(i, j))
	}
	return p
}

func feedEntity(i, j int) *entity {
	return &entity{body: "hello", header: []string{
		"Last-Modified: " + clock(i, j),
		"Content-Type: text/plain",
		fmt.Sprintf("Content-ID: <%d.%d>", i, j),
		"Operation-Type: http-equiv=PUT",
		"Content-Location: Europe%2FBerlin",
		"Content-Length: 5",
	}}
}

// link sets the links of page i; -1 stands for no link.
func (s *site) link(i, prev, next int) {
	var links []string
	for _, l := range []struct {
		rel  string
		page int
	}{{"self", i}, {"prev", prev}, {"next", next}} {
		if l.page >= 0 {
			links = append(links, fmt.Sprintf(`<%s>; rel="%s"`, path(l.page), l.rel))
		}
	}
	s.pages[path(i)].header["Link"] = links
}

// A place is the part of a violation that tests compare.
type place struct {
	Rule verify.Rule
	Path string
	Page int
	Part int
}

// places returns the places of the violations, and checks the fields that every violation must
// have.
func (s *site) places(report *verify.Report) []place {
	s.t.Helper()
	all := []place{}
	for _, v := range report.Violations {
		u, err := url.Parse(v.URL)
		if err != nil || s.server.URL != u.Scheme+"://"+u.Host {
			s.t.Errorf("violation names %q, which is not a URL of the site", v.URL)
			continue
		}
		if v.Message == "" || v.Remedy == "" {
			s.t.Errorf("violation without message or remedy: %+v", v)
		}
		if v.Rule == verify.PageFormat {
			if v.Offset < 0 {
				s.t.Errorf("violation without an offset: %+v", v)
			}
		} else if v.Part >= 0 {
			if p := s.pages[u.Path]; p != nil && !bytes.HasPrefix(p.bytes()[min(v.Offset, int64(len(p.bytes()))):], []byte("--"+boundary)) {
				s.t.Errorf("no delimiter at offset %d: %+v", v.Offset, v)
			}
		} else if v.Offset >= 0 {
			s.t.Errorf("an offset without a part: %+v", v)
		}
		all = append(all, place{v.Rule, u.Path, v.Page, v.Part})
	}
	return all
}

func (s *site) check(c verify.Config) *verify.Report {
	s.t.Helper()
	c.TempDir, c.KeepState = s.t.TempDir(), true
	report, err := verify.Feed(s.t.Context(), s.url("/feeds/zones"), c)
	if err != nil {
		s.t.Fatal(err)
	}
	return report
}
