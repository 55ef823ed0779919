package console_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/console"
	"github.com/feedctl/feedctl/feedstore"
	"github.com/feedctl/feedctl/readers"
	"github.com/feedctl/feedctl/storage/memory"
)

// A place is a page of the console, with a query for which it has something to show. FEED and JOB stand for the names
// of a feed and a job, and READER for the ID of a reader.
type place struct {
	query string
	like  string // the path of a similar page that is checked more closely
}

// places holds the pages of the console by path.
var places = map[string]place{
	"/":              {},
	"/feeds":         {},
	"/feed":          {query: "name=FEED"},
	"/pages":         {query: "feed=FEED"},
	"/page":          {query: "feed=FEED&n=3"},
	"/search":        {query: "feed=FEED&q=tea-mint"},
	"/entity":        {query: "feed=FEED&n=3&i=0"},
	"/history":       {query: "feed=FEED&n=15&i=0"},
	"/snapshots":     {},
	"/readers":       {},
	"/reader":        {query: "id=READER"},
	"/map":           {},
	"/checks":        {},
	"/jobs":          {},
	"/job":           {query: "name=JOB"},
	"/nodes":         {},
	"/pause":         {query: "job=JOB", like: "/prune"},
	"/resume":        {query: "job=JOB", like: "/prune"},
	"/restart":       {query: "job=JOB"},
	"/act":           {query: "job=JOB&action=retry+quarantine", like: "/prune"},
	"/verify":        {query: "feed=FEED", like: "/prune"},
	"/make-snapshot": {query: "feed=FEED", like: "/prune"},
	"/prune":         {query: "feed=FEED"},
	"/run":           {query: "id=1"},
}

// address returns the path and query of a page about a feed, a job and a reader.
func address(path, feed, job, reader string) string {
	query := strings.NewReplacer("FEED", url.QueryEscape(feed), "JOB", url.QueryEscape(job), "READER", url.QueryEscape(reader)).Replace(places[path].query)
	if query == "" {
		return path
	}
	return path + "?" + query
}

// TestPages checks each page in light and dark, in a wide and a narrow window, with and without script, and goes
// through it with the keyboard.
func TestPages(t *testing.T) {
	s := newSite(t, nil)
	if run := s.post(t, "/verify", url.Values{"feed": {"prices"}}); run != "/run?id=1" {
		t.Fatalf("the first action has the page %s", run)
	}
	script, bare := s.open(t, desktop), s.open(t, phone.withoutScript())
	script.visit("/")
	evaluate[string](script, `document.querySelector(".pause").click(), "paused"`) // so that no page changes while it is checked
	paths := s.console.Paths()
	if len(paths) != len(places) {
		t.Errorf("the console has %d pages, and the test knows %d: %q", len(paths), len(places), paths)
	}
	for _, path := range paths {
		name := strings.Trim(path, "/")
		if name == "" {
			name = "overview"
		}
		t.Run(name, func(t *testing.T) {
			place, ok := places[path]
			if !ok {
				t.Fatalf("%s is not in the table of pages", path)
			}
			url := address(path, "prices", "shop/stock-to-web", s.readers.Of("stock")[0].ID)
			script.t, bare.t = t, t
			if place.like == "" {
				look(script, url, name)
			} else {
				script.visit(url)
			}
			script.expect("findings", script.findings())
			script.expectStatus(url, 200)

			bare.visit(url)
			bare.expect("width without script", bare.overflow())
			bare.expect("findings without script", bare.findings())
			bare.expectStatus(url, 200)
			if h1 := evaluate[string](bare, `document.querySelector("h1")?.innerText ?? ""`); h1 == "" {
				t.Errorf("the page has no heading without script:\n%s", bare.text())
			}
		})
	}
}

// TestEmpty checks the pages of a console whose store and scheduler are empty, as shown to a user who may not act.
func TestEmpty(t *testing.T) {
	s := newSite(t, func(c *console.Config) {
		c.Store = memory.New()
		c.Feeds = feedstore.NewLocal(c.Store, nil)
		c.Jobs, c.Readers, c.ReadAuth, c.WriteAuth = &scheduler{}, readers.New(readers.Config{}), nil, nil
	})
	b := open(t, s.origin, phone)
	for _, path := range []string{"/", "/feeds", "/snapshots", "/readers", "/map", "/checks", "/jobs", "/search?q=nothing", "/feed?name=nothing", "/nothing"} {
		b.visit(path)
		b.theme("light")
		b.expect(path+": axe-core", b.accessibility())
		b.expect(path+": width of a phone", b.overflow())
		b.expect(path+": findings", b.findings())
		b.screenshot("empty-" + strings.Trim(strings.NewReplacer("/", "", "?", "-", "=", "-").Replace(path), "-"))
	}
}

// look checks a page in both themes and widths, and keeps screenshots of it.
func look(b *tab, url, name string) {
	b.t.Helper()
	b.resize(desktop.width, desktop.height)
	b.visit(url)
	b.theme("light")
	b.expect("axe-core, light", b.accessibility())
	b.screenshot(name + "-light")
	b.theme("dark")
	b.expect("axe-core, dark", b.colours())
	b.screenshot(name + "-dark")
	b.expect("width of a desktop", b.overflow())
	b.resize(phone.width, phone.height)
	b.expect("width of a phone", b.overflow())
	b.screenshot(name + "-phone-dark")
	b.theme("light")
	b.screenshot(name + "-phone-light")
	b.resize(desktop.width, desktop.height)
	b.expect("keyboard", b.keyboard())
}

// expectStatus fails the test unless the page at path had the status want.
func (b *tab) expectStatus(path string, want int64) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if got := b.statuses[b.origin+path]; got != want {
		b.t.Errorf("%s has status %d, want %d", path, got, want)
	}
}
