package console_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// focus presses Tab, as a person without a mouse does, until a control whose name begins with name has the
// focus.
func (b *tab) focus(name string) {
	b.t.Helper()
	for range maxStops {
		b.tabulate()
		got := evaluate[string](b, `(() => {
			const e = document.activeElement;
			return (e.labels?.[0]?.innerText ?? e.getAttribute("aria-label") ?? e.innerText).trim();
		})()`)
		if strings.HasPrefix(strings.ToLower(got), strings.ToLower(name)) {
			return
		}
	}
	b.t.Fatalf("Tab does not reach %q on the page:\n%s", name, b.text())
}

// enter presses Enter, which leads to another page.
func (b *tab) enter() {
	b.t.Helper()
	b.follow("press Enter", chromedp.KeyEvent(kb.Enter))
}

// travel goes back or forward in the history, as with the buttons of the browser. The browser may restore a page
// that it has kept instead of loading it.
func (b *tab) travel(steps int64) {
	b.t.Helper()
	navigated := chromedp.Events(b.ctx, page.FrameNavigated)
	b.do("go back or forward", chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		history, err := cdp.Call(ctx, target, page.GetNavigationHistory, cdp.Empty{})
		if err != nil {
			return err
		}
		_, err = cdp.Call(ctx, target, page.NavigateToHistoryEntry, page.NavigateToHistoryEntryParams{EntryID: history.Entries[history.CurrentIndex+steps].ID})
		return err
	}))
	for _, err := range navigated {
		if err != nil {
			b.t.Fatalf("go back or forward: %v", err)
		}
		break
	}
	evaluate[bool](b, `new Promise(done => document.readyState === "complete" ? done(true) : addEventListener("load", () => done(true)))`)
}

// path returns the path and query of the page.
func (b *tab) path() string {
	return evaluate[string](b, `location.pathname + location.search`)
}

// TestKeyboard pauses and resumes a job, and prunes a feed, without a mouse and without script.
func TestKeyboard(t *testing.T) {
	s := newSite(t, nil)
	b := s.open(t, desktop.withoutScript())
	b.visit("/jobs")
	b.focus("shop/prices-to-web")
	b.enter()
	b.focus("pause")
	b.enter()
	b.focus("pause")
	b.enter()
	b.shows("shop/prices-to-web is paused")
	b.focus("resume")
	b.enter()
	b.focus("resume")
	b.enter()
	b.shows("shop/prices-to-web is resumed")
	if want := []string{"pause shop/prices-to-web", "resume shop/prices-to-web"}; !slices.Equal(s.jobs.acted, want) {
		t.Errorf("jobs were changed by %q, want %q", s.jobs.acted, want)
	}

	b.visit("/prune?feed=prices")
	b.focus("keep age")
	b.do("type", chromedp.KeyEvent("30d"))
	b.enter()
	b.shows("12 pages with 1,200 entities would be deleted")
	if done := s.actions.all(); !slices.Equal(done, []string{"prune prices"}) {
		t.Errorf("before anyone confirmed, %q was done", done)
	}
	b.focus("delete 12 pages")
	b.enter()
	b.shows("12 pages deleted")
	if done, want := s.actions.all(), []string{"prune prices", "delete 12 pages prices"}; !slices.Equal(done, want) {
		t.Errorf("%q was done, want %q", done, want)
	}
	b.expect("findings", b.findings())
}

// TestBookmarks searches, goes back and forth, and opens the URL again.
func TestBookmarks(t *testing.T) {
	s := newSite(t, nil)
	b := s.open(t, desktop)
	b.visit("/jobs")
	b.focus("name contains")
	b.do("type", chromedp.KeyEvent("stock"))
	b.enter()
	found := b.path()
	expectStock := func() {
		t.Helper()
		b.shows("shop/stock-to-web")
		if text := b.text(); strings.Contains(text, "shop/countries") || b.path() != found {
			t.Errorf("path is %s, want %s, showing stock only:\n%s", b.path(), found, text)
		}
		if value := evaluate[string](b, `document.querySelector("input[name=name]").value`); value != "stock" {
			t.Errorf("the form has %q, want %q", value, "stock")
		}
	}
	expectStock()
	b.follow("click on a job", chromedp.Click(chromedp.CSS(`a[href*="stock-to-web"]`)))
	b.travel(-1)
	expectStock()
	b.travel(-1)
	b.shows("shop/countries")
	b.travel(1)
	expectStock()
	again := s.open(t, desktop)
	again.visit(found)
	again.shows("shop/stock-to-web")
	if text := again.text(); strings.Contains(text, "shop/countries") {
		t.Errorf("the bookmark shows more than stock:\n%s", text)
	}
	b.expect("findings", b.findings())
}
