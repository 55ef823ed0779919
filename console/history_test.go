package console

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/feedstore"
	"github.com/feedctl/feedctl/internal/longfeed"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

// TestSampled: samples are in order and include both ends, and there are as many as allowed.
func TestSampled(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		first, last int64
		limit       int
		want        []int64
	}{
		{1, 1, 4, []int64{1}}, {3, 6, 4, []int64{3, 4, 5, 6}}, {1, 10, 4, []int64{1, 4, 7, 10}}, {5, 105, 3, []int64{5, 55, 105}}, {1, 9, 1, []int64{9}},
	} {
		if got := sampled(test.first, test.last, test.limit); !slices.Equal(got, test.want) {
			t.Errorf("%d samples of %d to %d are %v, want %v", test.limit, test.first, test.last, got, test.want)
		}
	}
	for pages := int64(1); pages < 2000; pages += 7 {
		got := sampled(1, pages, 128)
		if len(got) != int(min(pages, 128)) || got[0] != 1 || got[len(got)-1] != pages || !slices.IsSorted(got) || len(slices.Compact(got)) != len(got) {
			t.Errorf("samples of %d pages are %v", pages, got)
		}
	}
}

// TestSeries spreads pages over time.
func TestSeries(t *testing.T) {
	t.Parallel()
	at := func(minutes int) time.Time { return start.Add(time.Duration(minutes) * time.Minute) }
	page := func(n int64, entities, first, last int) *chain.Page {
		return &chain.Page{Number: n, Entities: entities, Size: int64(entities) * 100, First: at(first), Last: at(last)}
	}
	for name, test := range map[string]struct {
		h     history
		want  []float64 // in steps of 10 minutes
		exact bool
		total amount
	}{
		"one page at once":             {history{pages: []*chain.Page{page(1, 7, 15, 15)}}, []float64{0, 7, 0, 0}, true, amount{7, 700, true}},
		"one page over two":            {history{pages: []*chain.Page{page(1, 8, 5, 15)}}, []float64{4, 4, 0, 0}, true, amount{8, 800, true}},
		"begins before":                {history{pages: []*chain.Page{page(1, 8, -20, 20)}}, []float64{2, 2, 0, 0}, true, amount{8, 800, true}},
		"ends now":                     {history{pages: []*chain.Page{page(1, 3, 40, 40)}}, []float64{0, 0, 0, 3}, true, amount{3, 300, true}},
		"is before":                    {history{pages: []*chain.Page{page(1, 3, -9, -5)}}, []float64{0, 0, 0, 0}, true, amount{3, 300, true}},
		"a page that stands for three": {history{pages: []*chain.Page{page(1, 5, 0, 0), page(4, 4, 19, 20)}}, []float64{11, 6, 0, 0}, false, amount{17, 1700, false}},
		"from a page on":               {history{pages: []*chain.Page{page(8, 2, 30, 30)}, before: 7}, []float64{0, 0, 0, 2}, true, amount{2, 200, true}},
		"more than three digits":       {history{pages: []*chain.Page{page(3, 4321, 10, 10)}, before: 0}, []float64{0, 12963, 0, 0}, false, amount{13_000, 1_300_000, false}},
	} {
		s := test.h.series(at(0), at(40), 4)
		for i := range s.Entities {
			if math.Abs(s.Entities[i]-test.want[i]) > 1e-9 || math.Abs(s.Bytes[i]-100*test.want[i]) > 1e-6 {
				t.Errorf("%s: entities %v, bytes %v; want %v", name, s.Entities, s.Bytes, test.want)
				break
			}
		}
		if s.Exact != test.exact || test.h.total() != test.total {
			t.Errorf("%s: exact is %t, the total %+v; want %+v", name, s.Exact, test.h.total(), test.total)
		}
	}
}

// TestSpark: the smallest number can be seen, and a steady rate does not look like a peak.
func TestSpark(t *testing.T) {
	t.Parallel()
	for want, steps := range map[string][]float64{
		"M0 20V20h4V20z":               {0, 0, 0, 0},
		"M0 20V12h4V20z":               {5, 5, 5, 5},
		"M0 20V19h2V0h1V20h1V20z":      {1, 1, 1000, 0},
		"M0 20V20h3V0h1V20z":           {0, 0, 0, 0.001},
		"M0 20V0h1V10h1V20h6V20z":      {2, 1, 0, 0, 0, 0, 0, 0},
		"M0 20V20h1V0h1V19h1V20h1V20z": {0, 1e12, 1, 0},
	} {
		if got := spark(steps); got != want {
			t.Errorf("spark(%v) is %q, want %q", steps, got, want)
		}
	}
}

// TestUsual: a feed is quiet if no entity was published for longer than usual.
func TestUsual(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		entities  int
		long, age time.Duration
		want      string
	}{
		{1, 0, 4 * time.Minute, stateActive}, {1, 0, 6 * time.Minute, stateQuiet}, {100, time.Second, 5 * time.Minute, stateActive},
		{25, 24 * time.Hour, 3 * time.Hour, stateActive}, {25, 24 * time.Hour, 3*time.Hour + 1, stateQuiet},
	} {
		p := &chain.Page{Entities: test.entities, First: start.Add(-test.long), Last: start}
		if got := stateOf(p, start.Add(test.age)); got != test.want {
			t.Errorf("%d entities in %v, the last %v ago: %s, want %s", test.entities, test.long, test.age, got, test.want)
		}
	}
}

// TestLongFeed: if a feed has many pages, only a bounded number of them is read, and the estimates are about right.
func TestLongFeed(t *testing.T) {
	t.Parallel()
	const pages = 20_000
	begun := start.Add(-pages * time.Minute)
	store := &counting{Store: longfeed.New(memory.New(), "long", pages, func(n int64) time.Time { return begun.Add(time.Duration(n) * time.Minute) })}
	for span, entities := range map[string]string{"day": "≈ 2,830 entities", "hour": "120 entities", "all": "≈ 40,000 entities"} {
		c := newConsole(t, store, func(c *Config) { c.Now = func() time.Time { return start } })
		if _, _, _, err := c.config.Feeds.Look(t.Context(), "long"); err != nil {
			t.Fatal(err)
		}
		store.stats.Store(0)
		path := "/feed?name=long&range=" + span
		html := shows(t, c, path, 200)
		if _, found, _ := strings.Cut(html, "<figcaption>\n<span>"); !strings.HasPrefix(found, entities) {
			t.Errorf("%s: %.60q, want %s", path, found, entities)
		}
		expect(t, path, html, ">≈ 40,000</dd>", `<a href="pages?feed=long">20,000</a>`)
		if n := store.stats.Load(); n > 2*chartSamples+30 {
			t.Errorf("%s reads the metadata of %d pages", path, n)
		}
	}
	feeds := feedstore.NewLocal(store, nil)
	defer feeds.Close(context.WithoutCancel(t.Context()))
	if _, _, _, err := feeds.Look(t.Context(), "long"); err != nil {
		t.Fatal(err)
	}
	store.stats.Store(0)
	s, err := newSummaries(Config{Store: store, Feeds: feeds, Now: func() time.Time { return start }}).read(t.Context(), "long")
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(s.Total.Entities, s.Day.total(s.Day.Entities)); got != "40000 2880" || store.stats.Load() > 2*summarySamples+30 {
		t.Errorf("the summary has %s entities, after %d reads", got, store.stats.Load())
	}
}

// counting counts requests for metadata.
type counting struct {
	storage.Store
	stats atomic.Int64
}

func (s *counting) Stat(ctx context.Context, key string) (storage.Info, error) {
	s.stats.Add(1)
	return s.Store.Stat(ctx, key)
}

// TestFeed shows a feed with several pages.
func TestFeed(t *testing.T) {
	t.Parallel()
	store := memory.New()
	var pages [][]feed.Entity
	for n := range 4 {
		var page []feed.Entity
		for i := range 20 {
			page = append(page, ago(fmt.Sprintf("%d-%02d", n+1, i), time.Duration(100-20*n-i)*time.Minute))
		}
		pages = append(pages, page)
	}
	writeFeed(t, store, "zones", pages...)
	identity, err := chain.Identify(t.Context(), store, "zones")
	if err != nil {
		t.Fatal(err)
	}
	c := newConsole(t, store, func(c *Config) { c.Now = func() time.Time { return start } })
	_, newest, _, err := c.config.Feeds.Look(t.Context(), "zones")
	if err != nil {
		t.Fatal(err)
	}
	const path = "/feed?name=zones"
	html := shows(t, c, path, 200)
	expect(t, path, html,
		"<dd>80</dd>", `<a href="pages?feed=zones">4</a>`, "80 entities, ", "21m ago", `<a href="snapshots?name=zones">none</a>`, identity.ID, newest.Prev, "of all pages up to 3",
		`<a href="page?feed=zones&amp;n=4">4</a>, open, with 20 entities`, "the first</span>", "feedctl inspect &#39;memory:#zones&#39;", `aria-current="true">Day</a>`,
	)
	var ids []string
	for _, part := range strings.Split(html, `<th scope="row"><a href="entity?`)[1:] {
		_, id, _ := strings.Cut(part, "&lt;")
		id, _, _ = strings.Cut(id, "&gt;")
		ids = append(ids, id)
	}
	if len(ids) != newestEntities || ids[0] != "4-19" || ids[19] != "4-00" || ids[20] != "3-19" || ids[49] != "2-10" {
		t.Errorf("%d newest entities: %q", len(ids), ids)
	}
	if got := shows(t, c, path+"&range=hour", 200); !strings.Contains(got, `aria-current="true">Hour</a>`) || !strings.Contains(got, "39 entities") {
		t.Errorf("the chart of an hour:\n%s", got)
	}
	part := shows(t, c, path+"&part=feed", 200)
	if strings.Contains(part, "<html") || !strings.Contains(html, part[:strings.Index(part, "<figure")]) {
		t.Errorf("the live part differs from the page:\n%s", part)
	}
}

// TestUsualShown: the page of a feed shows the usual time between its entities, unless that is zero.
func TestUsualShown(t *testing.T) {
	t.Parallel()
	store := memory.New()
	for name, gap := range map[string]time.Duration{"slow": time.Minute, "busy": time.Second / 2} {
		var entities []feed.Entity
		for n := range 5 {
			e := put(fmt.Sprintf("<%d>", n), "a", "1")
			e.LastModified = start.Add(time.Duration(n) * gap).Truncate(time.Second)
			entities = append(entities, e)
		}
		writeFeed(t, store, name, entities)
	}
	c := newConsole(t, store, nil)
	expect(t, "slow", shows(t, c, "/feed?name=slow", 200), "about every 1m<")
	if html := shows(t, c, "/feed?name=busy", 200); strings.Contains(html, "about every") {
		t.Errorf("busy: %s", html)
	}
}
