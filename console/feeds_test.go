package console

import (
	"context"
	"fmt"
	"iter"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/feedstore"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
	"github.com/feedctl/feedctl/storage/observe"
)

// inBubble runs a test with a console of a store in a synctest bubble, where waiting takes no time. The console uses
// the clock of the bubble, shifted so that it begins at start.
func inBubble(t *testing.T, store storage.Store, change func(*Config), test func(t *testing.T, c *Console)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		feeds := feedstore.NewLocal(store, nil)
		begun := time.Now()
		config := Config{Store: store, Feeds: feeds, StoreName: "memory:", Now: func() time.Time { return start.Add(time.Since(begun)) }}
		if change != nil {
			change(&config)
		}
		c, err := New(config)
		if err != nil {
			t.Fatal(err)
		}
		test(t, c)
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
		feeds.Close(t.Context())
	})
}

// ago returns a PUT that was published some time before start.
func ago(id string, age time.Duration) feed.Entity {
	e := put("<"+id+">", "key-"+id, "{}")
	e.LastModified = start.Add(-age)
	return e
}

// tear makes the metadata of a page unreadable.
func tear(t *testing.T, store storage.Store, name string, n int64) {
	t.Helper()
	info, err := store.Stat(t.Context(), layout.FeedPage(name, n))
	if err == nil {
		_, err = store.Replace(t.Context(), info.Key, info.Version, storage.Meta{Data: []byte(`{"entities":`)}, storage.Bytes(nil))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestOverview shows feeds in all states.
func TestOverview(t *testing.T) {
	t.Parallel()
	store := memory.New()
	writeFeed(t, store, "busy", []feed.Entity{ago("1", 9*time.Minute), ago("2", 6*time.Minute), ago("3", 3*time.Minute)})
	writeFeed(t, store, "slow", []feed.Entity{ago("1", 15*time.Hour), ago("2", 9*time.Hour)}, []feed.Entity{ago("3", 8*time.Hour), ago("4", 3*time.Hour)})
	writeFeed(t, store, "calm", []feed.Entity{ago("1", 50*24*time.Hour)})
	writeFeed(t, store, "torn", []feed.Entity{ago("1", time.Minute)})
	tear(t, store, "torn", 1)
	var worn [][]feed.Entity
	for n := range 40 {
		worn = append(worn, []feed.Entity{ago(fmt.Sprint(n), time.Duration(41-n)*time.Minute)})
	}
	writeFeed(t, store, "worn", worn...)
	tear(t, store, "worn", 4) // too old to be read when searching for the newest page, but read as a sample
	writeFeed(t, store, "gone", []feed.Entity{ago("1", time.Minute)})
	if _, err := chain.Delete(t.Context(), store, "gone"); err != nil {
		t.Fatal(err)
	}
	if err := store.Delete(t.Context(), layout.FeedPage("gone", 1)); err != nil {
		t.Fatal(err)
	}
	requests := new(Requests)
	change := func(c *Config) {
		c.Requests, c.Space = requests, func() *Space { return &Space{Free: 3 << 30, Total: 100 << 30} }
	}
	inBubble(t, observe.Wrap(store, requests.Observe), change, func(t *testing.T, c *Console) {
		html := shows(t, c, "/", 200)
		expect(t, "/", html,
			`<dd><a href="feeds">6</a></dd><dd class="quiet">4 read so far</dd>`,
			"</span> active</span></dt><dd>3</dd>", "</span> quiet</span></dt><dd>1</dd>",
			"▲</span> 3.0 GiB</span></dd><dd class=\"quiet\">of 100.0 GiB<", "<td class=\"n\">0</td></tr>", ">stat<", "feedctl list --store memory:",
			`aria-label="3 entities in the last 24 hours"`, `aria-label="4 entities in the last 24 hours"`, `aria-label="nothing in the last 24 hours"><path d="M0 20V20h48V20z"/>`,
			"3m ago", "3h ago", "50d ago",
		)
		if states := statesIn(html); !slices.Equal(states, []string{"busy active", "calm quiet", "slow active", "torn damaged", "worn damaged"}) {
			t.Errorf("the feeds are %q", states)
		}
		html = shows(t, c, "/feeds", 200)
		if states := statesIn(html); !slices.Equal(states, []string{"busy active", "calm quiet", "slow active", "torn damaged", "worn damaged"}) {
			t.Errorf("the list has %q", states)
		}
		if part := shows(t, c, "/?part=overview", 200); strings.Contains(part, "<html") || !strings.Contains(part, "50d ago") {
			t.Errorf("the live part is\n%s", part)
		}
	})
}

// statesIn returns the names and states in a table of feeds.
func statesIn(html string) (found []string) {
	for _, row := range strings.Split(html, `<th scope="row"><a href="feed?name=`)[1:] {
		name, rest, _ := strings.Cut(row, `"`)
		if _, after, ok := strings.Cut(rest, `class="shape"`); ok {
			_, after, _ = strings.Cut(after, "</span> ")
			state, _, _ := strings.Cut(after, "<")
			found = append(found, name+" "+state)
		}
	}
	return found
}

// TestListOfFeeds pages through a list and searches it.
func TestListOfFeeds(t *testing.T) {
	t.Parallel()
	store := memory.New()
	const feeds = 120
	for n := range feeds {
		writeFeed(t, store, fmt.Sprintf("f%03d", n), []feed.Entity{ago("1", time.Duration(n)*time.Minute)})
	}
	inBubble(t, store, nil, func(t *testing.T, c *Console) {
		var names []string
		pages := 0
		for path := "/feeds"; path != ""; pages++ {
			html := shows(t, c, path, 200)
			names = append(names, linksIn(html)...)
			if path = linkOf(html, "Next page"); path != "" {
				path = "/" + path
			}
		}
		if len(slices.Compact(names)) != feeds || !slices.IsSorted(names) || pages != 3 {
			t.Errorf("%d pages have %d names: %q", pages, len(names), names)
		}
		for query, want := range map[string]int{"F01": 10, "f119": 1, "9": 21, "none": 0, "<b>": 0} {
			path := "/feeds?q=" + url.QueryEscape(query)
			html := shows(t, c, path, 200)
			if got := linksIn(html); len(got) != want {
				t.Errorf("%s finds %q, want %d", path, got, want)
			}
			if want == 0 {
				expect(t, path, html, "No feed has <b>"+strings.NewReplacer("<", "&lt;", ">", "&gt;").Replace(query)+"</b>")
			}
		}
		html := shows(t, c, "/", 200)
		if got := linksIn(html); len(got) != overviewMax || got[0] != "f000" || got[1] != "f001" {
			t.Errorf("the overview has %q, want the feeds that changed last", got)
		}
		expect(t, "/", html, ">All 120 feeds<")
	})
}

// linksIn returns the names of the feeds in a table.
func linksIn(html string) (names []string) {
	for _, row := range strings.Split(html, `<th scope="row"><a href="feed?name=`)[1:] {
		name, _, _ := strings.Cut(row, `"`)
		names = append(names, name)
	}
	return names
}

// TestSearchIsBounded: a search among many names continues in another request.
func TestSearchIsBounded(t *testing.T) {
	t.Parallel()
	store := &manyNames{Store: memory.New(), names: maxNames + 7}
	inBubble(t, store, nil, func(t *testing.T, c *Console) {
		html := shows(t, c, "/feeds?q=none", 200)
		expect(t, "/feeds", html, "No feed of the 20,000 searched so far has", ">Search further<")
		next := "/" + linkOf(html, "Search further")
		if html := shows(t, c, next, 200); linkOf(html, "Search further") != "" {
			t.Errorf("%s does not end the search:\n%s", next, html)
		}
	})
}

// manyNames is a store that lists the names of many feeds without pages.
type manyNames struct {
	storage.Store
	names int
}

// Names implements [storage.Namer].
func (s *manyNames) Names(_ context.Context, prefix, after string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for n := 0; prefix == layout.FeedsPrefix && n < s.names; n++ {
			if name := fmt.Sprintf("n%06d", n); name > after && !yield(name, nil) {
				return
			}
		}
	}
}

// TestSlowStore: a list does not wait for a slow store, and shows which feeds are still being read.
func TestSlowStore(t *testing.T) {
	t.Parallel()
	store := &slowStore{Store: memory.New()}
	writeFeed(t, store, "zones", []feed.Entity{ago("1", time.Minute)})
	inBubble(t, store, nil, func(t *testing.T, c *Console) {
		store.delay = time.Second
		begun := time.Now()
		html := shows(t, c, "/feeds", 200)
		if took := time.Since(begun); took > 100*time.Millisecond {
			t.Errorf("the list took %v", took)
		}
		expect(t, "/feeds", html, `<td colspan="7" class="quiet">is being read</td>`)
		time.Sleep(10 * time.Second)
		expect(t, "/feeds", shows(t, c, "/feeds", 200), "1m ago")
	})
}

// slowStore delays each request for metadata.
type slowStore struct {
	storage.Store
	delay time.Duration
}

func (s *slowStore) Stat(ctx context.Context, key string) (storage.Info, error) {
	time.Sleep(s.delay)
	return s.Store.Stat(ctx, key)
}

// TestFeedErrors requests pages about feeds that do not exist or cannot be read, and sends invalid queries.
func TestFeedErrors(t *testing.T) {
	t.Parallel()
	store := memory.New()
	writeFeed(t, store, "zones", []feed.Entity{ago("1", time.Hour)}, []feed.Entity{ago("2", time.Minute)}, []feed.Entity{ago("3", time.Minute)})
	if _, err := chain.RaiseFloor(t.Context(), store, "zones", 2); err != nil {
		t.Fatal(err)
	}
	writeFeed(t, store, "torn", []feed.Entity{ago("1", time.Minute)})
	tear(t, store, "torn", 1)
	c := newConsole(t, store, nil)
	for path, status := range map[string]int{
		"/feed": 400, "/feed?name=none": 404, "/feed?name=..%2fx": 400, "/feed?name=%3Cscript%3E": 400, "/feed?name=torn": 500,
		"/pages?feed=none": 404, "/pages?feed=zones&from=x": 400, "/pages?feed=zones&to=tomorrow": 400, "/pages?feed=zones&from=-1": 400,
		"/page?feed=zones&n=1": 410, "/page?feed=zones&n=4": 404, "/page?feed=zones&n=0": 400, "/page?feed=zones&n=2&from=1": 400,
		"/page?feed=zones&n=2&at=999999": 400, "/page?feed=zones&n=9223372036854775808": 400, "/feeds?after=..": 400,
		"/feeds?q=" + strings.Repeat("x", maxQuery+1): 400, "/snapshots?name=none": 200, "/snapshots?name=a/b": 400, "/snapshots?after=a/b": 400,
	} {
		if html := shows(t, c, path, status); !strings.Contains(html, "<h1>") {
			t.Errorf("the answer to %s is not a page:\n%s", path, html)
		}
	}
}
