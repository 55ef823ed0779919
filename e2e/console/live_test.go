package console_test

import (
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/feedctl/feedctl/feed"
)

// TestLive: an open page shows new entities as they are published, until its Pause button is
// pressed.
func TestLive(t *testing.T) {
	s := newSite(t, nil)
	demo := &demo{t: t, store: s.store}
	publish := func(key string) {
		demo.publish("prices", 100, []moment{{time.Now(), []*feed.Entity{{
			ContentID: key, Operation: feed.Put, ContentType: "text/plain", ContentLocation: key, Body: []byte("new"),
		}}}})
	}
	first, second := s.open(t, desktop), s.open(t, desktop)
	for _, b := range []*tab{first, second} {
		b.visit("/feed?name=prices")
		evaluate[int](b, `globalThis.kept = 1`) // lost if the page is loaded again
	}
	shown := func(b *tab, key string) {
		t.Helper()
		b.wait(`document.querySelector("main").innerText.includes(` + `"` + key + `")`)
	}
	publish("tea-first")
	shown(first, "tea-first")
	shown(second, "tea-first")

	first.focus("pause")
	first.do("press Enter", chromedp.KeyEvent(kb.Enter))
	first.wait(`document.activeElement.innerText === "Resume"`)
	publish("tea-second")
	shown(second, "tea-second")
	if strings.Contains(first.text(), "tea-second") {
		t.Error("a page that was paused has changed")
	}
	first.do("press Enter", chromedp.KeyEvent(kb.Enter))
	shown(first, "tea-second")

	for _, b := range []*tab{first, second} {
		if kept := evaluate[int](b, `globalThis.kept ?? 0`); kept != 1 {
			t.Error("the page was loaded again")
		}
		b.expect("findings", b.findings())
	}
	first.expect("axe-core, after changes", first.accessibility())
}
