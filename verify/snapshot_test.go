package verify_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/verify"
)

// newSnapshot returns a snapshot of two pages with two entities each.
func newSnapshot(t *testing.T) (*site, []*fakePage) {
	s := newSite(t)
	var pages []*fakePage
	for i := range 2 {
		p := feedPage(i)
		for _, e := range p.entities {
			e.remove("Content-ID")
			e.remove("Operation-Type")
		}
		s.pages[snapshotPath(i)] = p
		pages = append(pages, p)
	}
	s.pages["/snapshots/zones"] = &fakePage{header: http.Header{"Content-Type": {"application/json"}}}
	s.index(s.url(snapshotPath(0)), s.url(snapshotPath(1)))
	return s, pages
}

func snapshotPath(i int) string { return fmt.Sprintf("/snapshots/zones/1/pages/%d", i) }

func (s *site) index(pages ...string) {
	s.pages["/snapshots/zones"].body = fmt.Sprintf(`{"id":"1","createdAt":"2023-11-27T03:01:01.000Z","pages":["%s"],
		"feed":{"url":"%s","lastModified":"2023-11-27T03:01:01.912Z","contentId":"<1.1>"},"entities":4}`,
		strings.Join(pages, `","`), s.url("/feeds/zones"))
}

func (s *site) editIndex(old, new string) {
	p := s.pages["/snapshots/zones"]
	if !strings.Contains(p.body, old) {
		s.t.Fatalf("the index has no %q", old)
	}
	p.body = strings.Replace(p.body, old, new, 1)
}

func (s *site) checkSnapshot(c verify.Config) *verify.Report {
	s.t.Helper()
	c.TempDir, c.KeepState = s.t.TempDir(), true
	report, err := verify.Snapshot(s.t.Context(), s.url("/snapshots/zones"), c)
	if err != nil {
		s.t.Fatal(err)
	}
	return report
}

func TestSnapshot(t *testing.T) {
	const index = "/snapshots/zones"
	for name, c := range map[string]struct {
		change func(s *site, pages []*fakePage)
		want   []place
	}{
		"clean":                  {func(*site, []*fakePage) {}, []place{}},
		"no additional property": {func(s *site, _ []*fakePage) { s.editIndex(`,"entities":4`, "") }, []place{}},
		"charset": {func(s *site, _ []*fakePage) {
			s.pages[index].header.Set("Content-Type", "application/json; charset=utf-8")
		}, []place{}},
		"no pages": {func(s *site, _ []*fakePage) {
			s.pages[index].body = `{"id":"1","createdAt":"2023-11-27T03:01:01.000Z","pages":[]}`
		}, []place{}},
		"times in any order": {func(_ *site, pages []*fakePage) {
			pages[0].entities[0].set("Last-Modified", clock(9, 0))
		}, []place{}},
		"with operations": {func(_ *site, pages []*fakePage) { pages[0].entities[0].set("Operation-Type", "http-equiv=PUT") }, []place{}},
		"index is HTML": {
			func(s *site, _ []*fakePage) { s.pages[index].header.Set("Content-Type", "text/html") },
			[]place{{verify.MediaType, index, 0, -1}},
		},
		"index without id": {
			func(s *site, _ []*fakePage) { s.editIndex(`"id":"1",`, "") },
			[]place{{verify.IndexSchema, index, 0, -1}},
		},
		"index of more than 32 MiB": {
			func(s *site, _ []*fakePage) { s.editIndex("{", "{"+strings.Repeat(" ", 32<<20)) },
			[]place{{verify.IndexSchema, index, 0, -1}},
		},
		"createdAt is not a time": {
			func(s *site, _ []*fakePage) { s.editIndex("2023-11-27T03:01:01.000Z", "yesterday") },
			[]place{{verify.IndexSchema, index, 0, -1}},
		},
		"index is not JSON": {
			func(s *site, _ []*fakePage) { s.pages[index].body = "<html>" },
			[]place{{verify.IndexSchema, index, 0, -1}},
		},
		"relative page URL": {
			func(s *site, _ []*fakePage) { s.index(snapshotPath(0), s.url(snapshotPath(1))) },
			[]place{{verify.AbsoluteURL, index, 0, -1}},
		},
		"invalid page URL": {
			func(s *site, _ []*fakePage) {
				s.index(s.url(snapshotPath(0)), s.url(snapshotPath(1)), "mailto:a@example.com")
			},
			[]place{{verify.AbsoluteURL, index, 0, -1}},
		},
		"relative feed URL": {
			func(s *site, _ []*fakePage) { s.editIndex(s.url("/feeds/zones"), "/feeds/zones") },
			[]place{{verify.AbsoluteURL, index, 0, -1}},
		},
		"createdAt after the feed position": {
			func(s *site, _ []*fakePage) { s.editIndex("03:01:01.000Z", "03:01:02.000Z") },
			[]place{{verify.CreatedAt, index, 0, -1}},
		},
		"wrong number of entities": {
			func(s *site, _ []*fakePage) { s.editIndex(`"entities":4`, `"entities":5`) },
			[]place{{verify.EntityCount, index, 0, -1}},
		},
		"wrong Repr-Digest of the index": {
			func(s *site, _ []*fakePage) { s.pages[index].header.Set("Repr-Digest", "sha-256=:AAAA:") },
			[]place{{verify.ReprDigest, index, 0, -1}},
		},
		"index is cut": {
			func(s *site, _ []*fakePage) { s.pages[index].header.Set("Content-Length", "4000") },
			[]place{{verify.Reachable, index, 0, -1}},
		},
		"page is missing": {
			func(s *site, _ []*fakePage) { delete(s.pages, snapshotPath(1)) },
			[]place{{verify.Reachable, snapshotPath(1), 2, -1}},
		},
		"page without Last-Modified": {
			func(_ *site, pages []*fakePage) { pages[0].header.Del("Last-Modified") },
			[]place{{verify.PageHeader, snapshotPath(0), 1, -1}},
		},
		"page is not multipart": {
			func(_ *site, pages []*fakePage) { pages[0].header.Set("Content-Type", "application/json") },
			[]place{{verify.MediaType, snapshotPath(0), 1, -1}},
		},
		"entity without Last-Modified": {
			func(_ *site, pages []*fakePage) { pages[1].entities[1].remove("Last-Modified") },
			[]place{{verify.EntityHeader, snapshotPath(1), 2, 1}},
		},
		"entity without Content-Type": {
			func(_ *site, pages []*fakePage) { pages[1].entities[1].remove("Content-Type") },
			[]place{{verify.EntityHeader, snapshotPath(1), 2, 1}},
		},
		"unknown operation": {
			func(_ *site, pages []*fakePage) { pages[0].entities[0].set("Operation-Type", "x") },
			[]place{{verify.OperationType, snapshotPath(0), 1, 0}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, pages := newSnapshot(t)
			c.change(s, pages)
			report := s.checkSnapshot(verify.Config{})
			if diff := cmp.Diff(c.want, s.places(report)); diff != "" {
				t.Errorf("(-want +got):\n%s\n%v", diff, report.Err())
			}
		})
	}
}

// TestSnapshotChanges: if a page of a snapshot changes or grows, that is a violation.
func TestSnapshotChanges(t *testing.T) {
	s, pages := newSnapshot(t)
	first := s.checkSnapshot(verify.Config{})
	if err := first.Err(); err != nil {
		t.Fatal(err)
	}
	s.editIndex(`,"entities":4`, "")
	pages[1].entities = append(pages[1].entities, pages[0].entities[0])
	want := []place{{verify.Changed, snapshotPath(1), 2, -1}}
	if diff := cmp.Diff(want, s.places(s.checkSnapshot(verify.Config{Since: kept(t, first.State)}))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSnapshotErrors(t *testing.T) {
	s, _ := newSnapshot(t)
	if _, err := verify.Snapshot(t.Context(), s.url("/snapshots/none"), verify.Config{}); err == nil {
		t.Error("checking a missing snapshot succeeded")
	}
}
