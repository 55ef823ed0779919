package console_test

import (
	"testing"
	"time"

	"github.com/feedctl/feedctl/feed"
)

// TestLiveState: when a page changes, the focus stays where it is, and opened parts stay open. A page does not
// change while it is hidden or some of its text is selected. The copy button says what it has done.
func TestLiveState(t *testing.T) {
	s := newSite(t, nil)
	b, other := s.open(t, desktop), s.open(t, desktop)
	b.visit("/feed?name=prices")
	other.visit("/feed?name=prices")
	feeds := &demo{t: t, store: s.store}
	has := func(id string) string { return `document.querySelector("main").innerText.includes("` + id + `")` }
	appears := func(id string) {
		t.Helper()
		feeds.publish("prices", 100, []moment{{time.Now(), []*feed.Entity{{
			ContentID: id, Operation: feed.Put, ContentType: "text/plain", ContentLocation: "live", Body: []byte("new"),
		}}}})
		other.wait(has(id))
	}

	evaluate[bool](b, `document.querySelector("[data-live] details").open = true`)
	evaluate[bool](b, `document.querySelector('[data-live] a[href^="pages"]').focus() ?? true`)
	appears("kept-1")
	b.wait(has("kept-1"))
	if !evaluate[bool](b, `document.querySelector("[data-live] details").open`) {
		t.Error("an open part of the page was closed")
	}
	if got := evaluate[string](b, `document.activeElement.getAttribute("href") ?? document.activeElement.tagName`); got != "pages?feed=prices" {
		t.Errorf("the focus is now on %q", got)
	}

	for _, test := range []struct{ when, begin, end string }{
		{
			"hidden", `Object.defineProperty(document, "hidden", {value: true, configurable: true}) && document.dispatchEvent(new Event("visibilitychange"))`,
			`delete document.hidden && document.dispatchEvent(new Event("visibilitychange"))`,
		},
		{"selected", `getSelection().selectAllChildren(document.querySelector("[data-live] h2")) ?? true`, `getSelection().removeAllRanges() ?? true`},
	} {
		evaluate[bool](b, test.begin)
		appears(test.when + "-1")
		appears(test.when + "-2") // by now, the first entity would have appeared on b, too
		if evaluate[bool](b, has(test.when+"-1")) {
			t.Errorf("while the page is %s, it changes", test.when)
		}
		evaluate[bool](b, test.end)
		b.wait(has(test.when + "-2"))
	}

	evaluate[bool](b, `document.querySelector(".command .copy").click() ?? true`)
	b.wait(`document.querySelector("[role=status]").textContent === "Copied" && document.querySelector(".command .copy").textContent === "Copied"`)
	b.expect("findings", b.findings())
}
