package layout_test

import (
	"testing"

	"github.com/feedctl/feedctl/layout"
)

// TestParsePath parses every kind of path that this package returns, and some others.
func TestParsePath(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]layout.Resource{
		layout.FeedPath("zones"):                  {Kind: "feed", Name: "zones"},
		layout.FeedPagePath("zones", 17):          {Kind: "page", Name: "zones", Page: 17},
		layout.FeedIndexPath("zones", 0):          {Kind: "page index", Name: "zones"},
		layout.FeedTimegatePath("zones"):          {Kind: "timegate", Name: "zones"},
		layout.SnapshotPath("zones"):              {Kind: "snapshot index", Name: "zones"},
		layout.SnapshotIndexPath("zones", "i"):    {Kind: "snapshot index", Name: "zones"},
		layout.SnapshotPagePath("zones", "i", 3):  {Kind: "snapshot page", Name: "zones", Page: 3},
		layout.DigestPath("zones"):                {Kind: "state digest", Name: "zones"},
		layout.DigestRootPath("zones", "i"):       {Kind: "state digest", Name: "zones"},
		layout.DigestNodePath("zones", "h"):       {Kind: "state digest", Name: "zones"},
		"/":                                       {},
		"/metrics":                                {},
		"/changes":                                {},
		"/feeds":                                  {},
		"/feeds/":                                 {},
		"/feeds/..":                               {},
		"/feeds/zones/pages/0":                    {},
		"/feeds/zones/pages/x":                    {},
		"/feeds/zones/pages/99999999999999999999": {},
		"/feeds/zones/other":                      {},
		"/snapshots/zones/i/pages/-1":             {},
		"/snapshots/zones/i/other/1":              {},
		"/other/zones":                            {},
	} {
		got, ok := layout.ParsePath(path)
		if want.Kind == "" {
			if ok {
				t.Errorf("%s is %+v, want nothing", path, got)
			}
		} else if got != want || !ok {
			t.Errorf("%s is %+v, %t; want %+v", path, got, ok, want)
		}
	}
}
