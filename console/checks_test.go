package console

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/storage/memory"
)

// TestChecks: the page shows checks, and no other actions.
func TestChecks(t *testing.T) {
	t.Parallel()
	actions := &fakeActions{}
	c, _ := actConsole(t, actions, &strings.Builder{})
	const all, limited = "Authorization: Bearer all", "Authorization: Basic YW5uOnA="
	expect(t, "checks", get(c, "/checks", all).Body.String(), "Nothing has been checked from this console", "No job verifies a feed.")

	do := func(result Result, err error, verb string) {
		t.Helper()
		actions.run = func(context.Context, func(string)) (Result, error) { return result, err }
		w := post(c, "/"+verb, url.Values{"feed": {"zones"}, "keep-pages": {"1"}}, all)
		if w.Code != 303 {
			t.Fatalf("%s: status %d\n%s", verb, w.Code, w.Body)
		}
		c.runs.active.Wait()
	}
	do(Result{Summary: "1 page, 1 entity, 70 B: no violations"}, nil, "verify")
	do(Result{Summary: "no pages"}, nil, "prune")
	html := get(c, "/checks", all).Body.String()
	expect(t, "checks", html, `<a href="run?id=1">verify</a>`, `<a href="feed?name=zones">zones</a>`, "no violations", "done")
	if strings.Contains(html, "prune") {
		t.Error("pruning is shown as a check")
	}
	do(Result{Summary: "3 violations", Findings: []string{"<script>first</script>", "second"}, Omitted: 1, Remedy: "run feedctl repair"}, nil, "verify")
	do(Result{}, errors.New("connection refused"), "verify")
	expect(t, "checks", get(c, "/checks", all).Body.String(), "found problems", `<td class="n">3</td>`, "&lt;script&gt;first&lt;/script&gt;", "Try: run feedctl repair", "connection refused")
	for range checkRows {
		do(Result{}, nil, "verify")
	}
	html = get(c, "/checks", all).Body.String()
	expect(t, "checks", html, "3 older checks are not shown")
	if n := strings.Count(html, `href="run?id=`); n != checkRows {
		t.Errorf("the page has %d checks", n)
	}
	if w := get(c, "/checks", limited); w.Code != 200 || strings.Contains(w.Body.String(), "zones") || strings.Contains(w.Body.String(), "memory:</code>") {
		t.Errorf("credentials for a namespace of jobs show checks of feeds, or the store:\n%s", w.Body)
	}
}

// TestChecksCorrupt: the page shows damage that was found by any reader in the process.
func TestChecksCorrupt(t *testing.T) {
	t.Parallel()
	store := memory.New()
	writeFeed(t, store, "zones", []feed.Entity{put("<1>", "aaa", `{}`)}, []feed.Entity{put("<2>", "b", `{}`)})
	damage(t, store, layout.FeedPage("zones", 1), "aaa", "axa")
	c := newConsole(t, store, nil)
	if html := shows(t, c, "/checks", 200); strings.Contains(html, "do not have their digest") {
		t.Error("the page shows damage before the store was read")
	}
	shows(t, c, entityPath("zones", 1, 0), 500)
	expect(t, "checks", shows(t, c, "/checks", 200), "1 object read since this process started did not match the recorded digest")
}
