package console

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/readers"
	"github.com/feedctl/feedctl/storage/memory"
)

// A readerWorld is a console with readers; now is the time of its clock.
type readerWorld struct {
	now     time.Time
	tracker *readers.Tracker
	console *Console
}

func newReaderWorld(t *testing.T, feeds ...string) *readerWorld {
	t.Helper()
	w := &readerWorld{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	w.tracker = readers.New(readers.Config{Now: func() time.Time { return w.now }})
	store := memory.New()
	for _, name := range feeds {
		publishAny(t, store, name)
	}
	w.console = newConsole(t, store, func(c *Config) {
		c.Readers, c.FeedsURL, c.Now = w.tracker, "https://feeds.example/", func() time.Time { return w.now }
	})
	return w
}

// visit sends a consumer's request for the newest page of a feed; behind is the lag of the consumer.
func (w *readerWorld) visit(name, agent, feedName string, behind time.Duration) {
	newest := w.now.Add(-time.Hour)
	h := w.tracker.Handler(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Last-Modified", feed.FormatTime(newest))
		rw.Header().Set("Content-Location", "https://feeds.example/feeds/"+feedName+"/pages/9")
	}))
	r := httptest.NewRequest(http.MethodGet, "/feeds/"+feedName, nil)
	r.Header.Set("User-Agent", agent)
	if name != "" {
		a := feed.Announcement{Name: name, LastModified: newest.Add(-behind), ContentID: "<1>", Page: "/feeds/" + feedName + "/pages/7"}
		r.Header.Set(feed.ConsumerHeader, a.Header())
	}
	h.ServeHTTP(httptest.NewRecorder(), r)
}

var rowOf = regexp.MustCompile(`<th scope="row"><a href="(reader\?id=[0-9a-f]+)">([^<]*)</a>`)

// rows returns the labels and URLs of the readers that a page lists.
func rows(body string) (labels, urls []string) {
	for _, m := range rowOf.FindAllStringSubmatch(body, -1) {
		urls, labels = append(urls, m[1]), append(labels, m[2])
	}
	return labels, urls
}

// TestReaders: readers are listed in the requested order, and can be filtered by feed and by text; each reader
// has a page.
func TestReaders(t *testing.T) {
	t.Parallel()
	w := newReaderWorld(t, "tea", "coffee")
	w.visit("slow", "feedctl", "tea", 90*time.Minute)
	w.visit("fast", "feedctl", "tea", 0)
	w.now = w.now.Add(2 * time.Minute)
	w.visit("", "curl/8", "coffee", 0)
	w.visit("late", "feedctl", "coffee", 3*time.Minute)
	for query, want := range map[string]string{
		"": "slow late fast curl/8", "?sort=name": "curl/8 fast late slow", "?feed=tea": "slow fast", "?q=CURL": "curl/8", "?q=nothing": "", "?feed=none": "",
	} {
		got := get(w.console, "/readers"+query)
		labels, _ := rows(got.Body.String())
		if got.Code != http.StatusOK || strings.Join(labels, " ") != want {
			t.Errorf("%s: status %d, readers %q, want %q", query, got.Code, labels, want)
		}
	}
	body := get(w.console, "/readers").Body.String()
	for _, want := range []string{"4 readers", "<b>2</b> more than 1m behind", "1h30m", "away", "reading", "https://feeds.example/metrics"} {
		if !strings.Contains(body, want) {
			t.Errorf("the list does not have %q", want)
		}
	}
	_, urls := rows(get(w.console, "/readers?q=slow").Body.String())
	one := get(w.console, "/"+urls[0])
	for _, want := range []string{"<h1>slow</h1>", "1h30m", "committed, as it announced", `href="page?feed=tea&amp;n=7"`, "Nothing to show yet", "&lt;1&gt;", `grep -F &#39;feed=&#34;tea&#34;,reader=&#34;slow&#34;&#39;`} {
		if !strings.Contains(one.Body.String(), want) {
			t.Errorf("the page of a reader does not have %q", want)
		}
	}
	_, urls = rows(get(w.console, "/readers?q=curl").Body.String())
	if one := get(w.console, "/"+urls[0]); one.Code != http.StatusOK || strings.Contains(one.Body.String(), "On the command line") {
		t.Errorf("a reader without a name, which has no metrics: status %d\n%s", one.Code, one.Body)
	}
	if got := get(w.console, "/reader?id=nothing"); got.Code != http.StatusNotFound {
		t.Errorf("a reader that is not known: status %d", got.Code)
	}
	if got := get(w.console, "/readers?from=0"); got.Code != http.StatusBadRequest {
		t.Errorf("from=0: status %d", got.Code)
	}
}

// TestManyReaders: with thousands of readers, each page is small, and every reader is on one of the pages.
func TestManyReaders(t *testing.T) {
	t.Parallel()
	w := newReaderWorld(t)
	long := strings.Repeat("n", 50)
	for n := range 3000 {
		w.visit(fmt.Sprintf("%s%d", long, n), strings.Repeat("agent", 100), "tea", time.Duration(n)*time.Second)
	}
	seen, next := map[string]bool{}, "readers"
	for next != "" {
		got := get(w.console, "/"+next)
		if size := got.Body.Len(); size > 100<<10 {
			t.Fatalf("%s has %d bytes", next, size)
		}
		labels, _ := rows(got.Body.String())
		for _, label := range labels {
			seen[label] = true
		}
		next = ""
		if m := regexp.MustCompile(`href="([^"]+)" rel="next"`).FindStringSubmatch(got.Body.String()); m != nil {
			next = strings.ReplaceAll(m[1], "&amp;", "&")
		}
	}
	if len(seen) != 3000 {
		t.Errorf("%d readers are on the pages", len(seen))
	}
}

// TestHostileReaders: data sent by strangers is always shown as text.
func TestHostileReaders(t *testing.T) {
	t.Parallel()
	w := newReaderWorld(t, "tea")
	w.visit("", `<script>alert(1)</script>"'`, "tea", 0)
	w.visit(`"><img src=x onerror=alert(1)>`, "feedctl", "tea", 0)
	_, urls := rows(get(w.console, "/readers").Body.String())
	for _, path := range append(urls, "readers", "map", "readers?q=%22%3E%3Cimg%3E&feed=%3Cimg%3E") {
		body := get(w.console, "/"+path).Body.String()
		if strings.Contains(body, "<img") || strings.Contains(body, "<script>") || len(urls) != 2 {
			t.Errorf("%s contains markup of a stranger:\n%s", path, body)
		}
	}
}

// TestMap: the map shows the feeds with the most readers, and says how many it leaves out.
func TestMap(t *testing.T) {
	t.Parallel()
	var names []string
	for n := range 40 {
		names = append(names, fmt.Sprintf("feed%02d", n))
	}
	w := newReaderWorld(t, names...)
	for n := range 8 {
		w.visit(fmt.Sprintf("consumer%d", n), "feedctl", "feed39", time.Duration(n)*time.Minute)
	}
	w.visit("other", "feedctl", "feed38", 0)
	w.console.config.Feeds.Heads(time.Minute) // make sure that all feeds have been polled
	body := get(w.console, "/map").Body.String()
	for _, want := range []string{"16 other feeds", "feed39", "feed38", "consumer0", "3 more", `class="late"`} {
		if !strings.Contains(body, want) {
			t.Errorf("the map does not have %q", want)
		}
	}
	if strings.Contains(body, "consumer7") || strings.Count(body, `class="feed"`) != mapFeeds || strings.Index(body, "feed39") > strings.Index(body, "feed38") {
		t.Errorf("the map is\n%s", body)
	}
	if empty := get(newReaderWorld(t).console, "/map"); !strings.Contains(empty.Body.String(), "There are no feeds") {
		t.Errorf("the empty map is\n%s", empty.Body)
	}
}

// TestLagChart draws histories with gaps.
func TestLagChart(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		values []int32
		path   string
		worst  time.Duration
		newest string
	}{
		"nothing":   {nil, "", 0, ""},
		"not known": {[]int32{-1, -1}, "", 0, "not known"},
		"none":      {[]int32{0, 0}, "M0 59L1 59", 0, "0s"},
		"a gap":     {[]int32{0, 60, -1, 30}, "M0 59L1 1M3 30", time.Minute, "30s"},
	} {
		c := newLagChart("hour", test.values, time.Minute)
		if c.Path != test.path || c.Worst != test.worst || test.newest != "" && c.Rows[0].Worst != test.newest {
			t.Errorf("%s: %+v", name, c)
		}
	}
}
