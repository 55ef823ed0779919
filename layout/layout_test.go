package layout_test

import (
	"errors"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/layout"
)

func TestCheckName(t *testing.T) {
	for _, name := range []string{
		"a", "Z", "0", "zones", "tz-2024a", "a.b", "a_b", "a-", "a.", "a.b.c", "1.2-3_4",
		strings.Repeat("x", layout.MaxName), "pages", "index", "feeds", "con",
	} {
		if err := layout.CheckName(name); err != nil {
			t.Errorf("CheckName(%q): %v", name, err)
		}
	}
	for reason, names := range map[string][]string{
		"empty":             {""},
		"dots":              {".", "..", "...", "a..b", "a..", "..a", ".hidden"},
		"slashes":           {"a/b", "/", "/a", "a/", `a\b`},
		"control":           {"a\x00", "a\n", "a\rb", "\x7f", "a\x1b[31m"},
		"blank":             {" ", "a b", " a", "a ", "a\t"},
		"URL syntax":        {"a%2f", "%2e%2e", "a?b", "a#b", "a:b", "a@b", "a&b", "a=b", "a;b", "~a", "a+b"},
		"shell and glob":    {"a*", "a$b", "a`b", "a|b", "a'b", `a"b`, "a<b", "a>b", "(a)", "[a]", "{a}", "a!", "a,b", "a^b"},
		"begins badly":      {"-a", "--help", "_a", ".a"},
		"not ASCII":         {"ä", "aä", "а", "a\u202eb", "\xff", "a\u2024b", "ａ"},
		"longer than limit": {strings.Repeat("x", layout.MaxName+1), strings.Repeat("x", 1<<20)},
	} {
		t.Run(reason, func(t *testing.T) {
			for _, name := range names {
				err := layout.CheckName(name)
				if !errors.Is(err, layout.ErrName) {
					t.Errorf("CheckName(%.50q) = %v, want ErrName", name, err)
				} else if text := err.Error(); len(text) > 300 || strings.ContainsAny(text, "\x00\n\r\x1b") {
					t.Errorf("CheckName(%.50q): error text of %d bytes is unsuitable for a terminal", name, len(text))
				}
			}
		})
	}
}

// TestKeysAndPaths fixes every key and URL path. Changing one breaks existing stores and links.
func TestKeysAndPaths(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{layout.FeedPages("zones"), "feeds/zones/pages/"},
		{layout.FeedPage("zones", 1), "feeds/zones/pages/000000000001"},
		{layout.FeedPage("zones", 999_999_999_999), "feeds/zones/pages/999999999999"},
		{layout.FeedPage("zones", 1_000_000_000_000), "feeds/zones/pages/1000000000000"},
		{layout.FeedFloor("zones"), "feeds/zones/floor"},
		{layout.FeedTurns("zones"), "feeds/zones/turns"},
		{layout.FeedRetention("zones"), "feeds/zones/retention"},
		{layout.SnapshotIndexes("zones"), "snapshots/zones/index/"},
		{layout.SnapshotIndex("zones", "20231127T205217Z-1"), "snapshots/zones/index/20231127T205217Z-1"},
		{layout.SnapshotPages("zones", "1"), "snapshots/zones/pages/1/"},
		{layout.SnapshotPage("zones", "1", 0), "snapshots/zones/pages/1/000000"},
		{layout.SnapshotPage("zones", "1", 999_999), "snapshots/zones/pages/1/999999"},
		{layout.SnapshotPage("zones", "1", 1_000_000), "snapshots/zones/pages/1/1000000"},
		{layout.FeedPath("zones"), "/feeds/zones"},
		{layout.FeedPagePath("zones", 12), "/feeds/zones/pages/12"},
		{layout.FeedTimegatePath("zones"), "/feeds/zones/at"},
		{layout.FeedIndexPath("zones", 0), "/feeds/zones/index/0"},
		{layout.DigestRoots("zones"), "digests/zones/roots/"},
		{layout.DigestRoot("zones", "1"), "digests/zones/roots/1"},
		{layout.DigestNodes("zones"), "digests/zones/nodes/"},
		{layout.DigestNode("zones", "0a"), "digests/zones/nodes/0a"},
		{layout.DigestPath("zones"), "/digests/zones"},
		{layout.DigestRootPath("zones", "1"), "/digests/zones/1"},
		{layout.DigestNodePath("zones", "0a"), "/digests/zones/nodes/0a"},
		{layout.SnapshotPath("zones"), "/snapshots/zones"},
		{layout.SnapshotIndexPath("zones", "1"), "/snapshots/zones/1"},
		{layout.SnapshotPagePath("zones", "1", 0), "/snapshots/zones/1/pages/0"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

func TestParseSnapshotIndex(t *testing.T) {
	for id, ok := range map[string]bool{
		"20260102T030405.678Z-c5xnp2qa": true, "20260102T030405Z-4fzq2m": true, "20231127T205217Z-1": true,
		"": false, "readme": false, "20260102T030405.678Z-c5xnp2qa.bak": false, "20260102T030405.678Z-": false,
		"20260102T030405.678Z-C5": false, "x20260102T030405.678Z-c5xnp2qa": false, "20260102T030405.678Z-c5/x": false,
	} {
		got, err := layout.ParseSnapshotIndex("zones", "snapshots/zones/index/"+id)
		if (err == nil) != ok || ok && got != id || !ok && !errors.Is(err, layout.ErrName) {
			t.Errorf("%q: %q, %v", id, got, err)
		}
	}
	if _, err := layout.ParseSnapshotIndex("other", "snapshots/zones/index/20231127T205217Z-1"); err == nil {
		t.Error("the index of another snapshot is accepted")
	}
}

// TestKeysAreSafe: every key made from a valid name is valid in package storage, stays
// below its prefix, and is a clean path.
func TestKeysAreSafe(t *testing.T) {
	allowed := regexp.MustCompile(`^[A-Za-z0-9._-]{1,200}(/[A-Za-z0-9._-]{1,200})*$`)
	for _, name := range []string{"a", "a.b-c_d", "pages", "floor", "index", strings.Repeat("x", layout.MaxName)} {
		for _, key := range []string{
			layout.FeedPage(name, 1), layout.FeedFloor(name), layout.SnapshotIndex(name, name), layout.SnapshotPage(name, name, 0),
		} {
			if !allowed.MatchString(key) || len(key) > 512 || filepath.ToSlash(filepath.Clean(key)) != key {
				t.Errorf("key %q is not well-formed", key)
			}
		}
		if !strings.HasPrefix(layout.FeedPage(name, 1), layout.FeedPages(name)) ||
			!strings.HasPrefix(layout.FeedPages(name), layout.FeedsPrefix) ||
			!strings.HasPrefix(layout.SnapshotIndex(name, "1"), layout.SnapshotIndexes(name)) ||
			!strings.HasPrefix(layout.SnapshotPage(name, "1", 0), layout.SnapshotPages(name, "1")) ||
			!strings.HasPrefix(layout.SnapshotPages(name, "1"), layout.SnapshotsPrefix) {
			t.Errorf("a key of %q is not below its prefix", name)
		}
	}
}

// TestKeysSortByNumber: listings return pages in order.
func TestKeysSortByNumber(t *testing.T) {
	var feed, snapshot []string
	for _, n := range []int{0, 1, 2, 9, 10, 11, 99, 100, 101, 99_999, 100_000, 999_999} {
		feed = append(feed, layout.FeedPage("zones", int64(n)))
		snapshot = append(snapshot, layout.SnapshotPage("zones", "1", n))
	}
	if !slices.IsSorted(feed) || !slices.IsSorted(snapshot) {
		t.Errorf("not sorted: %q %q", feed, snapshot)
	}
}

func TestParseFeedPage(t *testing.T) {
	for _, n := range []int64{1, 9, 10, 123_456, 999_999_999_999, 1_000_000_000_000} {
		if got, err := layout.ParseFeedPage("zones", layout.FeedPage("zones", n)); err != nil || got != n {
			t.Errorf("page %d is read back as %d, %v", n, got, err)
		}
	}
	for _, key := range []string{
		"", "feeds/zones/pages/", "feeds/zones/pages/000000000000", "feeds/zones/pages/1", "feeds/zones/pages/0000000000001",
		"feeds/zones/pages/-00000000001", "feeds/zones/pages/+00000000001", "feeds/zones/pages/00000000000a",
		"feeds/zones/pages/000000000001/x", "feeds/other/pages/000000000001", "feeds/zones/floor", "/feeds/zones/pages/000000000001",
		"feeds/zones/pages/99999999999999999999",
	} {
		if n, err := layout.ParseFeedPage("zones", key); !errors.Is(err, layout.ErrName) {
			t.Errorf("ParseFeedPage(%q) = %d, %v; want ErrName", key, n, err)
		}
	}
}

func TestParseFeedPageURL(t *testing.T) {
	for _, ref := range []string{
		"/feeds/zones/pages/12", "https://example.com/feeds/zones/pages/12", "http://[::1]:8080/base/feeds/zones/pages/12?x=1",
		"https://example.com" + layout.FeedPagePath("zones", 12),
	} {
		if name, n, err := layout.ParseFeedPageURL(ref); err != nil || name != "zones" || n != 12 {
			t.Errorf("ParseFeedPageURL(%q) = %q, %d, %v", ref, name, n, err)
		}
	}
	for _, ref := range []string{
		"", "/", "%zz", "/feeds/zones", "/feeds/zones/pages/", "/feeds/zones/pages/0", "/feeds/zones/pages/-1",
		"/feeds/zones/pages/+1", "/feeds/zones/pages/01", "/feeds/zones/pages/1/", "/feeds/a%2Fb/pages/1", "/feeds/../pages/1",
		"/snapshots/zones/pages/1", "/feeds/zones/page/1", "/feeds/zones/pages/99999999999999999999",
	} {
		if name, n, err := layout.ParseFeedPageURL(ref); !errors.Is(err, layout.ErrName) {
			t.Errorf("ParseFeedPageURL(%q) = %q, %d, %v; want ErrName", ref, name, n, err)
		}
	}
}
