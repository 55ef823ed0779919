package verify_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/verify"
)

// appendPage makes page i+1 the newest.
func (s *site) appendPage(i int) *fakePage {
	p := feedPage(i)
	s.pages[path(i)] = p
	s.pages["/feeds/zones"] = p
	s.link(i, i-1, -1)
	s.link(i-1, i-2, i)
	return p
}

// prune removes the pages before page i+1.
func (s *site) prune(i int) {
	for j := range i {
		delete(s.pages, path(j))
	}
	links := s.pages[path(i)].header["Link"]
	kept := links[:0:0]
	for _, l := range links {
		if !strings.Contains(l, `"prev"`) {
			kept = append(kept, l)
		}
	}
	s.pages[path(i)].header["Link"] = kept
}

// TestSecondVisit changes a feed between two visits. Only forbidden changes are violations.
func TestSecondVisit(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *site, pages []*fakePage)
		want   []place
	}{
		"nothing":            {func(*site, []*fakePage) {}, []place{}},
		"an added entity":    {func(_ *site, pages []*fakePage) { grow(pages[2]) }, []place{}},
		"an added page":      {func(s *site, _ []*fakePage) { s.appendPage(3) }, []place{}},
		"both":               {func(s *site, pages []*fakePage) { grow(pages[2]); s.appendPage(3) }, []place{}},
		"a removed page":     {func(s *site, _ []*fakePage) { s.prune(1) }, []place{}},
		"two removed pages":  {func(s *site, _ []*fakePage) { s.prune(2) }, []place{}},
		"all pages replaced": {func(s *site, _ []*fakePage) { s.appendPage(3); s.prune(3) }, []place{}},
		"changed cache time": {func(_ *site, pages []*fakePage) { pages[0].header.Set("Cache-Control", "no-cache") }, []place{}},
		"one byte of a body": {
			func(_ *site, pages []*fakePage) { pages[1].entities[0].body = "hallo" },
			[]place{{verify.Changed, path(1), 2, -1}},
		},
		"a header": {
			func(_ *site, pages []*fakePage) { pages[1].entities[0].set("X-New", "1") },
			[]place{{verify.Changed, path(1), 2, -1}},
		},
		"the order of headers": {
			func(_ *site, pages []*fakePage) {
				h := pages[1].entities[0].header
				h[0], h[1] = h[1], h[0]
			},
			[]place{{verify.Changed, path(1), 2, -1}},
		},
		"the epilogue": {
			func(_ *site, pages []*fakePage) {
				pages[1].document = func(b []byte) []byte { return append(b, "more"...) }
			},
			[]place{{verify.Changed, path(1), 2, -1}},
		},
		"an entity added to an old page": {
			func(_ *site, pages []*fakePage) { grow(pages[1]) },
			[]place{{verify.Changed, path(1), 2, -1}},
		},
		"an entity removed from the newest page": {
			func(_ *site, pages []*fakePage) {
				pages[2].entities = pages[2].entities[:1]
				pages[2].header.Set("Last-Modified", clock(2, 0))
			},
			[]place{{verify.Changed, path(2), 3, -1}},
		},
		"an entity in the newest page": {
			func(_ *site, pages []*fakePage) { pages[2].entities[0].body = "hallo"; grow(pages[2]) },
			[]place{{verify.Changed, path(2), 3, -1}},
		},
		"the boundary of the newest page": {
			func(_ *site, pages []*fakePage) {
				pages[2].header.Set("Content-Type", "multipart/mixed; boundary=other")
				pages[2].document = func(b []byte) []byte {
					return bytes.ReplaceAll(b, []byte("--"+boundary), []byte("--other"))
				}
			},
			[]place{{verify.Changed, path(2), 3, -1}},
		},
		"a page removed in the middle": {
			func(s *site, _ []*fakePage) {
				s.appendPage(3)
				delete(s.pages, path(1))
				s.link(0, -1, 2)
				s.link(2, 0, 3)
			},
			[]place{{verify.Changed, path(1), 0, -1}},
		},
		"another feed": {
			func(s *site, pages []*fakePage) {
				p := feedPage(1)
				s.pages["/feeds/zones"], s.pages[path(9)] = p, p
				s.link(9, -1, -1)
			},
			[]place{{verify.Changed, "/feeds/zones", 0, -1}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, pages := newFeed(t)
			first := s.check(verify.Config{})
			if err := first.Err(); err != nil {
				t.Fatal(err)
			}
			c.change(s, pages)
			report := s.check(verify.Config{Since: kept(t, first.State)})
			if diff := cmp.Diff(c.want, s.places(report)); diff != "" {
				t.Errorf("(-want +got):\n%s\n%v", diff, report.Err())
			}
		})
	}
}

// kept encodes and decodes a state, as happens when it is stored in a file.
func kept(t *testing.T, state *verify.State) *verify.State {
	t.Helper()
	data, err := json.Marshal(state)
	if err != nil {
		t.Fatal(err)
	}
	var again verify.State
	if err := json.Unmarshal(data, &again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(*state, again); diff != "" {
		t.Fatalf("the state is not the one that was written to its file:\n%s", diff)
	}
	return &again
}

func grow(p *fakePage) {
	e := feedEntity(2, 1)
	e.set("Content-ID", "<new>")
	e.set("Last-Modified", p.header.Get("Last-Modified"))
	p.entities = append(p.entities, e)
}

func TestMovedPage(t *testing.T) {
	s, _ := newFeed(t)
	state := s.check(verify.Config{}).State
	state.Pages[0], state.Pages[1] = state.Pages[1], state.Pages[0]
	want := []place{{verify.Changed, path(0), 1, -1}}
	report := s.check(verify.Config{Since: state})
	if diff := cmp.Diff(want, s.places(report)); diff != "" {
		t.Errorf("(-want +got):\n%s\n%v", diff, report.Err())
	}
}

func TestReadStateErrors(t *testing.T) {
	for _, text := range []string{`{"pages":[{"sha256":"abc"}]}`, `{"pages":[{"digest":"zz"}]}`, `{"pages":[{"digest":7}]}`} {
		var s verify.State
		if err := json.Unmarshal([]byte(text), &s); err == nil {
			t.Errorf("%s is accepted", text)
		}
	}
}
