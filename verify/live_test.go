package verify_test

import (
	"testing"

	"github.com/feedctl/feedctl/verify"
)

// TestLiveFeed changes the feed during the check, as producers and retention do.
func TestLiveFeed(t *testing.T) {
	for name, c := range map[string]struct {
		request string // the feed changes before the first response to this request
		change  func(s *site, pages []*fakePage)
		pages   int
	}{
		"an added entity": {"HEAD " + path(1), func(_ *site, pages []*fakePage) { grow(pages[2]) }, 3},
		"an added page": {"HEAD " + path(1), func(s *site, pages []*fakePage) {
			grow(pages[2])
			s.appendPage(3)
		}, 4},
		"two added pages, one late": {"GET " + path(2), func(s *site, _ []*fakePage) {
			s.appendPage(3)
			s.appendPage(4)
		}, 5},
		"a page added between entry and its permanent URL": {"HEAD " + path(2), func(s *site, _ []*fakePage) { s.appendPage(3) }, 4},
		"pruned before the crawl gets there":               {"HEAD " + path(0), func(s *site, _ []*fakePage) { s.prune(1) }, 2},
		"pruned before it is read":                         {"GET " + path(0), func(s *site, _ []*fakePage) { s.prune(1) }, 2},
		"two pruned before they are read":                  {"GET " + path(0), func(s *site, _ []*fakePage) { s.prune(2) }, 1},
		"pruned after it was read":                         {"GET " + path(1), func(s *site, _ []*fakePage) { s.prune(2) }, 2},
		"prev removed, page still exists": {"GET " + path(1), func(s *site, _ []*fakePage) {
			first := s.pages[path(0)]
			s.prune(1)
			s.pages[path(0)] = first
		}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			s, pages := newFeed(t)
			s.before = func(request string) {
				if request == c.request {
					s.before = nil
					c.change(s, pages)
				}
			}
			report := s.check(verify.Config{})
			if err := report.Err(); err != nil {
				t.Error(err)
			}
			if s.before != nil {
				t.Fatalf("%s was not requested", c.request)
			}
			if report.Pages != c.pages {
				t.Errorf("%d pages read, want %d: %q", report.Pages, c.pages, s.asked)
			}
		})
	}
}
