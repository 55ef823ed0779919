package verify_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/verify"
)

func TestCleanFeed(t *testing.T) {
	for name, change := range map[string]func(*site, []*fakePage){
		"as it is": func(*site, []*fakePage) {},
		"no HEAD":  func(s *site, _ []*fakePage) { s.noHead = true },
		"one page": func(s *site, pages []*fakePage) {
			delete(s.pages, path(0))
			delete(s.pages, path(1))
			s.link(2, -1, -1)
		},
		"bare date": func(_ *site, pages []*fakePage) {
			pages[0].entities[0].set("Last-Modified", "Mon Nov 27 03:00:00 2023")
		},
		"PUT": func(_ *site, pages []*fakePage) { pages[0].entities[0].set("Operation-Type", "put") },
		"same second": func(_ *site, pages []*fakePage) {
			pages[1].entities[0].set("Last-Modified", clock(1, 1))
		},
		"no Content-Length": func(_ *site, pages []*fakePage) { pages[1].entities[1].remove("Content-Length") },
		"other subtype": func(_ *site, pages []*fakePage) {
			pages[1].header.Set("Content-Type", "multipart/related; boundary="+boundary)
		},
		"LF": func(_ *site, pages []*fakePage) {
			pages[0].document = func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n")) }
		},
		"epilogue": func(_ *site, pages []*fakePage) {
			pages[0].document = func(b []byte) []byte { return append(b, "the end\r\n"...) }
		},
		"Repr-Digest": func(_ *site, pages []*fakePage) {
			sum := sha256.Sum256(pages[1].bytes())
			pages[1].header.Set("Repr-Digest", "unixsum=:AA==:, sha-256=:"+base64.StdEncoding.EncodeToString(sum[:])+":;x=1")
		},
		"chain": func(_ *site, pages []*fakePage) {
			pages[0].header.Set("Feedctl-Chain", "self=:AAAA:")
			pages[1].header.Set("Feedctl-Chain", "prev=:AAAA:, self=:AAAB:, feed=:AAAC:")
			pages[2].header.Set("Feedctl-Chain", "prev=:AAAB:")
		},
		"redirect": func(s *site, _ []*fakePage) {
			s.pages["/old"] = &fakePage{redirect: path(1)}
			s.pages[path(2)].header["Link"] = []string{"<" + path(2) + ">; rel=self", "</old>; rel=prev"}
			s.pages[path(0)].header["Link"] = []string{"<" + path(0) + ">; rel=self", "</old>; rel=next"}
		},
		"not the newest page": func(s *site, pages []*fakePage) { s.pages["/feeds/zones"] = pages[1] },
	} {
		t.Run(name, func(t *testing.T) {
			s, pages := newFeed(t)
			change(s, pages)
			report := s.check(verify.Config{})
			if err := report.Err(); err != nil {
				t.Error(err)
			}
			if report.Kind != "feed" || report.Pages == 0 || report.Entities != int64(2*report.Pages) || len(report.State.Pages) != report.Pages {
				t.Errorf("report %+v", report)
			}
		})
	}
}

// TestEmptyFeed: if the status of the entry point is 204, the feed has no entities.
func TestEmptyFeed(t *testing.T) {
	for _, noHead := range []bool{false, true} {
		s := newSite(t)
		s.pages["/feeds/zones"] = &fakePage{status: http.StatusNoContent}
		s.noHead = noHead
		if report := s.check(verify.Config{}); report.Err() != nil || report.Pages != 0 {
			t.Errorf("%d pages, %v", report.Pages, report.Err())
		}
	}
}

func TestReportOfCleanFeed(t *testing.T) {
	s, pages := newFeed(t)
	report := s.check(verify.Config{})
	size := 0
	for _, p := range pages {
		size += len(p.bytes())
	}
	if report.Pages != 3 || report.Entities != 6 || report.Bytes != int64(size) {
		t.Errorf("%d pages, %d entities, %d bytes; want 3, 6, %d", report.Pages, report.Entities, report.Bytes, size)
	}
	first, last := time.Date(2023, 11, 27, 3, 0, 0, 0, time.UTC), time.Date(2023, 11, 27, 3, 2, 1, 0, time.UTC)
	if !report.First.Equal(first) || !report.Last.Equal(last) {
		t.Errorf("from %v to %v", report.First, report.Last)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range pages {
		if n := slices.Index(s.asked, "GET "+path(i)); n < 0 || slices.Contains(s.asked[n+1:], "GET "+path(i)) {
			t.Errorf("page %d was not read exactly once: %q", i+1, s.asked)
		}
	}
}

// TestFeedRules breaks one rule at a time. The check must find exactly that violation.
func TestFeedRules(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *site, pages []*fakePage)
		want   []place
	}{
		"page answers 500": {
			func(s *site, pages []*fakePage) {
				s.before = func(request string) {
					if request == "GET "+path(1) {
						pages[1].status = http.StatusInternalServerError
					}
				}
			},
			[]place{{verify.Reachable, path(1), 2, -1}},
		},
		"prev answers 404": {
			func(s *site, _ []*fakePage) { delete(s.pages, path(0)) },
			[]place{{verify.Reachable, path(0), 0, -1}},
		},
		"next answers 404": {
			func(s *site, _ []*fakePage) { s.link(2, 1, 8) },
			[]place{{verify.Reachable, path(8), 4, -1}},
		},
		"body is cut": {
			func(_ *site, pages []*fakePage) { pages[1].header.Set("Content-Length", "4000") },
			[]place{{verify.Reachable, path(1), 2, -1}},
		},
		"page is HTML": {
			func(_ *site, pages []*fakePage) { pages[1].header.Set("Content-Type", "text/html") },
			[]place{{verify.MediaType, path(1), 2, -1}},
		},
		"no boundary": {
			func(_ *site, pages []*fakePage) { pages[1].header.Set("Content-Type", "multipart/mixed") },
			[]place{{verify.MediaType, path(1), 2, -1}},
		},
		"coded though not asked for": {
			func(_ *site, pages []*fakePage) { pages[1].header.Set("Content-Encoding", "br") },
			[]place{{verify.MediaType, path(1), 2, -1}},
		},
		"boundary with an unclosed quote": {
			func(_ *site, pages []*fakePage) {
				pages[1].header.Set("Content-Type", `multipart/mixed; boundary="`+boundary)
			},
			[]place{{verify.MediaType, path(1), 2, -1}},
		},
		"wrong weekdays": {
			func(_ *site, pages []*fakePage) {
				pages[2].header.Set("Last-Modified", "Tue, 27 Nov 2023 03:02:01 GMT")
				pages[2].entities[1].set("Last-Modified", "Tuesday, 27-Nov-23 03:02:01 GMT")
			},
			[]place{{verify.PageHeader, path(2), 3, -1}, {verify.EntityHeader, path(2), 3, 1}},
		},
		"body has the page's delimiter where the Content-Length hides it": {
			func(_ *site, pages []*fakePage) {
				e := pages[1].entities[0]
				e.body = "x\r\n--" + boundary + "\r\n\r\ny"
				e.set("Content-Length", strconv.Itoa(len(e.body)))
			},
			[]place{{verify.PageFormat, path(1), 2, 0}},
		},
		"body begins with a line like the page's delimiter": {
			func(_ *site, pages []*fakePage) {
				e := pages[1].entities[1]
				e.body = "--" + boundary + "longer"
				e.set("Content-Length", strconv.Itoa(len(e.body)))
			},
			[]place{{verify.PageFormat, path(1), 2, 1}},
		},
		"streamed body has a line like the page's delimiter": {
			func(_ *site, pages []*fakePage) {
				e := pages[1].entities[1]
				e.body = strings.Repeat("0123456\n--"+boundary[1:], 100_000) + "\n--" + boundary + "longer"
				e.set("Content-Length", strconv.Itoa(len(e.body)))
			},
			[]place{{verify.PageFormat, path(1), 2, 1}},
		},
		"page without Last-Modified": {
			func(_ *site, pages []*fakePage) { pages[2].header.Del("Last-Modified") },
			[]place{{verify.PageHeader, path(2), 3, -1}},
		},
		"page with bad Last-Modified": {
			func(_ *site, pages []*fakePage) { pages[2].header.Set("Last-Modified", "2023-11-27") },
			[]place{{verify.PageHeader, path(2), 3, -1}},
		},
		"no closing delimiter": {
			func(_ *site, pages []*fakePage) {
				pages[0].document = func(b []byte) []byte { return bytes.TrimSuffix(b, []byte("--\r\n")) }
			},
			[]place{{verify.PageFormat, path(0), 1, 1}},
		},
		"no entities": {
			func(_ *site, pages []*fakePage) { pages[1].entities, pages[1].body = nil, "--"+boundary+"--\r\n" },
			[]place{{verify.PageFormat, path(1), 2, -1}},
		},
		"header without colon": {
			func(_ *site, pages []*fakePage) {
				pages[1].entities[1].header = append(pages[1].entities[1].header, "nonsense")
			},
			[]place{{verify.PageFormat, path(1), 2, 1}},
		},
		"entity without Last-Modified": {
			func(_ *site, pages []*fakePage) { pages[1].entities[0].remove("Last-Modified") },
			[]place{{verify.EntityHeader, path(1), 2, 0}},
		},
		"last entity without Last-Modified": {
			func(_ *site, pages []*fakePage) { pages[1].entities[1].remove("Last-Modified") },
			[]place{{verify.EntityHeader, path(1), 2, 1}},
		},
		"entity with bad Last-Modified": {
			func(_ *site, pages []*fakePage) { pages[1].entities[0].set("Last-Modified", "now") },
			[]place{{verify.EntityHeader, path(1), 2, 0}},
		},
		"entity without Content-Type": {
			func(_ *site, pages []*fakePage) { pages[1].entities[1].remove("Content-Type") },
			[]place{{verify.EntityHeader, path(1), 2, 1}},
		},
		"entity without Content-ID": {
			func(_ *site, pages []*fakePage) { pages[2].entities[1].remove("Content-ID") },
			[]place{{verify.EntityHeader, path(2), 3, 1}},
		},
		"entity with empty Content-ID": {
			func(_ *site, pages []*fakePage) { pages[2].entities[1].set("Content-ID", "") },
			[]place{{verify.EntityHeader, path(2), 3, 1}},
		},
		"entity without Operation-Type": {
			func(_ *site, pages []*fakePage) { pages[0].entities[1].remove("Operation-Type") },
			[]place{{verify.EntityHeader, path(0), 1, 1}},
		},
		"entity with two Content-IDs": {
			func(_ *site, pages []*fakePage) {
				pages[0].entities[1].header = append(pages[0].entities[1].header, "content-id: <x>")
			},
			[]place{{verify.EntityHeader, path(0), 1, 1}},
		},
		"unknown operation": {
			func(_ *site, pages []*fakePage) { pages[0].entities[1].set("Operation-Type", "http-equiv=POST") },
			[]place{{verify.OperationType, path(0), 1, 1}},
		},
		"Content-Length too large": {
			func(_ *site, pages []*fakePage) { pages[1].entities[0].set("Content-Length", "7") },
			[]place{{verify.ContentLength, path(1), 2, 0}},
		},
		"Content-Length too small": {
			func(_ *site, pages []*fakePage) { pages[1].entities[0].set("Content-Length", "4") },
			[]place{{verify.ContentLength, path(1), 2, 0}},
		},
		"Content-Length no number": {
			func(_ *site, pages []*fakePage) { pages[1].entities[0].set("Content-Length", "five") },
			[]place{{verify.ContentLength, path(1), 2, 0}},
		},
		"wrong Repr-Digest": {
			func(_ *site, pages []*fakePage) {
				pages[1].header.Set("Repr-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(make([]byte, 32))+":")
			},
			[]place{{verify.ReprDigest, path(1), 2, -1}},
		},
		"wrong Repr-Digest, SHA-512": {
			func(_ *site, pages []*fakePage) {
				pages[1].header.Set("Repr-Digest", "sha-512=:"+base64.StdEncoding.EncodeToString(make([]byte, 64))+":")
			},
			[]place{{verify.ReprDigest, path(1), 2, -1}},
		},
		"unreadable Repr-Digest": {
			func(_ *site, pages []*fakePage) { pages[1].header.Set("Repr-Digest", "sha-256=abc") },
			[]place{{verify.ReprDigest, path(1), 2, -1}},
		},
		"unreadable link": {
			func(_ *site, pages []*fakePage) {
				pages[0].header["Link"] = append(pages[0].header["Link"], `<ftp://x/>; rel="prev"`)
			},
			[]place{{verify.LinkSyntax, path(0), 1, -1}},
		},
		"two next": {
			func(_ *site, pages []*fakePage) {
				pages[0].header["Link"] = append(pages[0].header["Link"], "<"+path(2)+`>; rel="next"`)
			},
			[]place{{verify.LinkSyntax, path(0), 1, -1}},
		},
		"no self": {
			func(_ *site, pages []*fakePage) { pages[1].header["Link"] = pages[1].header["Link"][1:] },
			[]place{{verify.SelfLink, path(1), 2, -1}},
		},
		"self is another page": {
			func(_ *site, pages []*fakePage) { pages[1].header["Link"][0] = "<" + path(0) + ">; rel=self" },
			[]place{{verify.SelfLink, path(1), 2, -1}},
		},
		"self of the newest is another page": {
			func(_ *site, pages []*fakePage) { pages[2].header["Link"][0] = "<" + path(1) + ">; rel=self" },
			[]place{{verify.SelfLink, "/feeds/zones", 3, -1}},
		},
		"self of the newest answers 404": {
			func(_ *site, pages []*fakePage) { pages[2].header["Link"][0] = "<" + path(8) + ">; rel=self" },
			[]place{{verify.SelfLink, "/feeds/zones", 3, -1}},
		},
		"self of the newest answers 500": {
			func(s *site, _ []*fakePage) {
				s.pages["/feeds/zones"], s.pages[path(2)] = s.pages[path(2)], &fakePage{status: 500}
			},
			[]place{{verify.Reachable, path(2), 3, -1}},
		},
		"newest without self": {
			func(_ *site, pages []*fakePage) { pages[2].header["Link"] = pages[2].header["Link"][1:] },
			[]place{{verify.SelfLink, "/feeds/zones", 3, -1}},
		},
		"page follows another timeline": {
			func(_ *site, pages []*fakePage) {
				pages[1].header.Set("Feedctl-Chain", "prev=:AAAA:, self=:AAAB:")
				pages[2].header.Set("Feedctl-Chain", "prev=:AAAC:")
			},
			[]place{{verify.Timeline, path(2), 3, -1}},
		},
		"page of another feed": {
			func(_ *site, pages []*fakePage) {
				pages[0].header.Set("Feedctl-Chain", "identity=:AAAA:")
				pages[1].header.Set("Feedctl-Chain", "identity=:AAAA:")
				pages[2].header.Set("Feedctl-Chain", "identity=:AAAB:")
			},
			[]place{{verify.Timeline, path(2), 3, -1}},
		},
		"page does not name the digest before it": {
			func(_ *site, pages []*fakePage) {
				pages[0].header.Set("Feedctl-Chain", "self=:AAAA:")
				pages[1].header.Set("Feedctl-Chain", "self=:AAAB:")
				pages[2].header.Set("Feedctl-Chain", "prev=:AAAB:")
			},
			[]place{{verify.Timeline, path(1), 2, -1}},
		},
		"HEAD and GET are of two timelines": {
			func(_ *site, pages []*fakePage) {
				pages[1].header.Set("Feedctl-Chain", "self=:AAAB:")
				pages[1].head = func(h http.Header) { h.Set("Feedctl-Chain", "self=:AAAC:") }
			},
			[]place{{verify.Timeline, path(1), 2, -1}},
		},
		"chain cannot be read": {
			func(_ *site, pages []*fakePage) { pages[1].header.Set("Feedctl-Chain", "self=:A:") },
			[]place{{verify.Timeline, path(1), 2, -1}},
		},
		"next skips a page": {
			func(s *site, _ []*fakePage) { s.link(0, -1, 2) },
			[]place{{verify.Symmetry, path(0), 1, -1}},
		},
		"no next in the middle": {
			func(s *site, pages []*fakePage) { s.link(1, 0, -1); pages[1].header.Del("Cache-Control") },
			[]place{{verify.Symmetry, path(1), 2, -1}},
		},
		"prev skips a page": {
			func(s *site, _ []*fakePage) { s.link(2, 0, -1) },
			[]place{{verify.Symmetry, path(0), 1, -1}},
		},
		"new page names another prev": {
			func(s *site, pages []*fakePage) {
				s.pages[path(3)] = feedPage(3)
				s.link(3, 0, -1)
				s.link(2, 1, 3)
			},
			[]place{{verify.Symmetry, path(3), 4, -1}},
		},
		"loop": {
			func(s *site, _ []*fakePage) { s.link(0, 2, 1); s.link(2, 1, 0) },
			[]place{{verify.Loop, path(0), 1, -1}},
		},
		"prev is the page itself": {
			func(s *site, _ []*fakePage) { s.link(0, 0, 1) },
			[]place{{verify.Loop, path(0), 1, -1}},
		},
		"next leads back": {
			func(s *site, _ []*fakePage) { s.link(2, 1, 0) },
			[]place{{verify.Loop, path(2), 3, -1}},
		},
		"HEAD without links": {
			func(_ *site, pages []*fakePage) { pages[1].head = func(h http.Header) { h.Del("Link") } },
			[]place{{verify.Head, path(1), 2, -1}},
		},
		"HEAD without prev": {
			func(_ *site, pages []*fakePage) {
				pages[1].head = func(h http.Header) { h["Link"] = slices.Delete(slices.Clone(h["Link"]), 1, 2) }
			},
			[]place{{verify.Head, path(1), 1, -1}},
		},
		"HEAD with another time": {
			func(_ *site, pages []*fakePage) {
				pages[1].head = func(h http.Header) { h.Set("Last-Modified", clock(1, 0)) }
			},
			[]place{{verify.Head, path(1), 2, -1}},
		},
		"time goes back within a page": {
			func(_ *site, pages []*fakePage) {
				pages[1].entities[0].set("Last-Modified", clock(1, 1))
				pages[1].entities[1].set("Last-Modified", clock(1, 0))
			},
			[]place{{verify.TimeOrder, path(1), 2, 1}},
		},
		"time goes back across pages": {
			func(_ *site, pages []*fakePage) { pages[1].entities[0].set("Last-Modified", clock(0, 0)) },
			[]place{{verify.TimeOrder, path(1), 2, 0}},
		},
		"page is newer than its entities": {
			func(_ *site, pages []*fakePage) { pages[1].header.Set("Last-Modified", clock(1, 2)) },
			[]place{{verify.PageTime, path(1), 2, -1}},
		},
		"page is older than its newest entity": {
			func(_ *site, pages []*fakePage) { pages[1].header.Set("Last-Modified", clock(1, 0)) },
			[]place{{verify.PageTime, path(1), 2, -1}},
		},
		"Content-ID twice in a page": {
			func(_ *site, pages []*fakePage) { pages[1].entities[1].set("Content-ID", "<1.0>") },
			[]place{{verify.DuplicateID, path(1), 2, 1}},
		},
		"Content-ID three times": {
			func(_ *site, pages []*fakePage) {
				pages[1].entities[1].set("Content-ID", "<0.0>")
				pages[2].entities[0].set("Content-ID", "<0.0>")
			},
			[]place{{verify.DuplicateID, path(1), 2, 1}, {verify.DuplicateID, path(2), 3, 0}},
		},
		"newest page is immutable": {
			func(_ *site, pages []*fakePage) { pages[2].header.Set("Cache-Control", "max-age=60, Immutable") },
			[]place{{verify.Caching, path(2), 3, -1}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, pages := newFeed(t)
			c.change(s, pages)
			report := s.check(verify.Config{})
			if diff := cmp.Diff(c.want, s.places(report)); diff != "" {
				t.Errorf("(-want +got):\n%s\n%v", diff, report.Err())
			}
		})
	}
}

// TestManyViolations: one pass finds all violations, including several of one entity.
func TestManyViolations(t *testing.T) {
	s, pages := newFeed(t)
	pages[0].entities[0].header = []string{"Content-Length: 9", "Operation-Type: POST"}
	pages[1].header.Set("Content-Type", "text/plain")
	pages[2].header.Set("Cache-Control", "immutable")
	pages[2].entities[1].set("Content-ID", "<2.0>")
	want := []place{
		{verify.EntityHeader, path(0), 1, 0}, {verify.EntityHeader, path(0), 1, 0}, {verify.OperationType, path(0), 1, 0},
		{verify.EntityHeader, path(0), 1, 0}, {verify.ContentLength, path(0), 1, 0},
		{verify.MediaType, path(1), 2, -1},
		{verify.Caching, path(2), 3, -1}, {verify.DuplicateID, path(2), 3, 1},
	}
	report := s.check(verify.Config{})
	if diff := cmp.Diff(want, s.places(report)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	text := report.Err().Error()
	for _, part := range []string{"entity-header", path(0), "page 1, part 0, offset 0", "Last-Modified"} {
		if !strings.Contains(text, part) {
			t.Errorf("error does not contain %q:\n%s", part, text)
		}
	}
}

// TestMaxPages checks part of a feed whose links never end.
func TestMaxPages(t *testing.T) {
	s, pages := newFeed(t)
	report := s.check(verify.Config{MaxPages: len(pages) - 1})
	if report.Pages != len(pages)-1 || len(report.Violations) != 1 || report.Violations[0].Rule != verify.Loop {
		t.Errorf("%d pages: %v", report.Pages, report.Err())
	}
	if report := s.check(verify.Config{MaxPages: len(pages)}); report.Err() != nil {
		t.Error(report.Err())
	}
}

func TestMaxViolations(t *testing.T) {
	s, pages := newFeed(t)
	for _, p := range pages {
		for _, e := range p.entities {
			e.remove("Content-ID")
		}
	}
	report := s.check(verify.Config{MaxViolations: 2})
	if len(report.Violations) != 2 || report.Omitted != 4 || !strings.Contains(report.Err().Error(), "4 more violations") {
		t.Errorf("%d listed, %d omitted: %v", len(report.Violations), report.Omitted, report.Err())
	}
}
