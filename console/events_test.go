package console

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/feedstore"
	"github.com/feedctl/feedctl/internal/inprocess"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

// listen opens an event stream. The channel receives the topics of each event, and "heartbeat" for each
// heartbeat.
func listen(ctx context.Context, t *testing.T, c *Console, query string) (events <-chan string, status int) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://console.test/events?"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := (&http.Client{Transport: inprocess.Transport(c)}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 100)
	go func() {
		defer close(lines)
		defer response.Body.Close()
		for s := bufio.NewScanner(response.Body); s.Scan(); {
			if topics, ok := strings.CutPrefix(s.Text(), "data: "); ok {
				lines <- topics
			} else if s.Text() == ":" {
				lines <- "heartbeat"
			}
		}
	}()
	return lines, response.StatusCode
}

// taken returns what a stream has sent since the last call.
func taken(events <-chan string) (got []string) {
	synctest.Wait()
	for {
		select {
		case e, ok := <-events:
			if !ok {
				return append(got, "end")
			}
			got = append(got, e)
		default:
			return got
		}
	}
}

func publishAny(t *testing.T, store storage.Store, name string) {
	t.Helper()
	f, err := producer.Open(t.Context(), store, name, producer.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Publish(t.Context(), &feed.Entity{Operation: feed.Put, ContentType: "text/plain", Body: []byte("hello")}); err != nil {
		t.Fatal(err)
	}
}

// inStreams runs a test with a console in fake time.
func inStreams(t *testing.T, test func(t *testing.T, c *Console, store storage.Store)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		publishAny(t, store, "tea")
		publishAny(t, store, "coffee")
		feeds := feedstore.NewLocal(store, nil)
		c, err := New(Config{Store: store, Feeds: feeds, StoreName: "memory:"})
		if err != nil {
			t.Fatal(err)
		}
		test(t, c, store)
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
		feeds.Close(t.Context())
	})
}

// TestEvents: a stream names all topics at first, then those that have changed, at most once a second, and
// stays open when nothing changes.
func TestEvents(t *testing.T) {
	inStreams(t, func(t *testing.T, c *Console, store storage.Store) {
		ctx, stop := context.WithCancel(t.Context())
		all, _ := listen(ctx, t, c, "topic=*")
		tea, _ := listen(ctx, t, c, "topic=tea&topic=nothing")
		tick, _ := listen(ctx, t, c, "topic=.")
		if got := taken(all); got != nil {
			t.Errorf("at once, the stream sends %q", got)
		}
		time.Sleep(4 * time.Second)
		for name, test := range map[string]struct {
			events <-chan string
			want   []string
		}{"*": {all, []string{"*"}}, "tea": {tea, []string{"nothing tea"}}, ".": {tick, []string{"."}}} {
			got := taken(test.events)
			if len(got) > 1 && name != "." {
				got = got[:1] // the existing feeds may be reported once as changed
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("the stream of %s: %s", name, diff)
			}
		}

		publishAny(t, store, "coffee")
		time.Sleep(3 * time.Second)
		if got := taken(tea); got != nil {
			t.Errorf("after a change of another feed, the stream of tea sends %q", got)
		}
		if diff := cmp.Diff([]string{"*"}, taken(all)); diff != "" {
			t.Errorf("after a change: %s", diff)
		}
		for range 20 {
			publishAny(t, store, "tea")
			time.Sleep(100 * time.Millisecond)
		}
		if got := len(taken(tea)); got < 1 || got > 3 {
			t.Errorf("20 changes in two seconds are reported by %d events", got)
		}
		time.Sleep(20 * time.Second)
		taken(all)
		time.Sleep(60 * time.Second)
		if diff := cmp.Diff([]string{"heartbeat", "heartbeat", "heartbeat", "heartbeat"}, taken(all)); diff != "" {
			t.Errorf("in a minute without changes: %s", diff)
		}
		if got := len(taken(tick)); got < 15 || got > 18+6 {
			t.Errorf("in 80 seconds there were %d ticks", got)
		}
		stop()
		synctest.Wait()
		if len(c.hub.streams) > 0 || c.hub.watching != nil {
			t.Errorf("%d streams are left, and the feeds are watched: %t", len(c.hub.streams), c.hub.watching != nil)
		}
	})
}

// TestEventsLimits: the number of streams is limited, and Close ends them.
func TestEventsLimits(t *testing.T) {
	inStreams(t, func(t *testing.T, c *Console, _ storage.Store) {
		var streams []<-chan string
		for range maxStreams {
			events, status := listen(t.Context(), t, c, "topic=*")
			if streams = append(streams, events); status != http.StatusOK {
				t.Fatalf("stream %d: status %d", len(streams), status)
			}
		}
		if _, status := listen(t.Context(), t, c, "topic=*"); status != http.StatusServiceUnavailable {
			t.Errorf("one stream too many: status %d", status)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
		for _, events := range streams {
			if got := taken(events); got[len(got)-1] != "end" {
				t.Fatalf("after Close, a stream sends %q", got)
			}
		}
		if _, status := listen(t.Context(), t, c, "topic=*"); status != http.StatusServiceUnavailable {
			t.Errorf("a stream after Close: status %d", status)
		}
	})
}

// TestEventsRequests sends valid and invalid requests for events.
func TestEventsRequests(t *testing.T) {
	t.Parallel()
	c := newConsole(t, memory.New(), func(c *Config) { c.ReadAuth = Credentials([]server.Credential{{Bearer: "r"}}) })
	for query, status := range map[string]int{
		"": 400, "?topic=": 400, "?topic=..": 400, "?topic=a%0Adata:x": 400, "?topic=a" + strings.Repeat("&topic=b", 99): 200,
		"?topic=a&topic=b&topic=c&topic=d&topic=e&topic=f&topic=g&topic=h&topic=i": 400,
	} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		w := do(c, httptest.NewRequestWithContext(ctx, http.MethodGet, "/events"+query, nil), "Authorization: Bearer r")
		if w.Code != status {
			t.Errorf("%s: status %d, want %d", query, w.Code, status)
		}
	}
	if w := get(c, "/events?topic=*"); w.Code != http.StatusUnauthorized {
		t.Errorf("without credentials: status %d", w.Code)
	}
}

// TestEventsAccess: a person with credentials for a namespace of jobs is not told about feeds.
func TestEventsAccess(t *testing.T) {
	t.Parallel()
	c, _ := actConsole(t, &fakeActions{}, &strings.Builder{})
	const all, limited = "Authorization: Bearer all", "Authorization: Basic YW5uOnA="
	for _, test := range []struct {
		query, fields string
		status        int
	}{
		{"topic=.", "", 401}, {"topic=.", limited, 200}, {"topic=.", all, 200}, {"topic=zones", all, 200},
		{"topic=zones", limited, 403}, {"topic=*", limited, 403}, {"topic=.&topic=zones", limited, 403},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		w := do(c, httptest.NewRequestWithContext(ctx, http.MethodGet, "/events?"+test.query, nil), test.fields)
		if w.Code != test.status {
			t.Errorf("%s with %q: status %d, want %d", test.query, test.fields, w.Code, test.status)
		}
	}
}

// TestScript: the script is small, and never turns text into HTML.
func TestScript(t *testing.T) {
	t.Parallel()
	script, err := assets.ReadFile("assets/console.js")
	if err != nil {
		t.Fatal(err)
	}
	if len(script) > 8<<10 {
		t.Errorf("console.js has %d bytes", len(script))
	}
	for _, word := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "DOMParser", "createPolicy", "http:", "https:"} {
		if strings.Contains(string(script), word) {
			t.Errorf("console.js has %q", word)
		}
	}
}
