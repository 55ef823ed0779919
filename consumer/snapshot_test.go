package consumer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/page"
	"github.com/feedctl/feedctl/snapshot"
)

const (
	indexURL        = "http://feed.test/snapshot"
	snapshotPageURL = "http://feed.test/snapshot/" // + number
)

// A testSnapshot serves a snapshot and forwards all other requests.
type testSnapshot struct {
	*testFeed
	id    string
	feed  *snapshot.FeedPosition
	parts [][]feed.Entity

	mu       sync.Mutex
	open     int // requests for pages being served
	mostOpen int
	delay    func(number int)
	change   func(rw http.ResponseWriter, r *http.Request) bool
}

// newSnapshot creates a snapshot with n entities on each of its pages, and a feed.
func newSnapshot(f *testFeed, pages, n int) *testSnapshot {
	s := &testSnapshot{testFeed: f, id: "id-1"}
	for range pages {
		var entities []feed.Entity
		for range n {
			number := len(s.parts)*n + len(entities)
			entities = append(entities, feed.Entity{LastModified: second(-number), ContentType: "text/plain",
				ContentLocation: fmt.Sprint("key-", number), Body: fmt.Append(nil, "body of s", number)})
		}
		s.parts = append(s.parts, entities)
	}
	return s
}

func (s *testSnapshot) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if s.change != nil && s.change(rw, r) {
		return
	}
	rest, ok := strings.CutPrefix(r.URL.Path, "/snapshot")
	switch {
	case !ok:
		s.testFeed.ServeHTTP(rw, r)
	case rest == "":
		s.serveIndex(rw)
	default:
		number, _ := strconv.Atoi(rest[1:])
		s.servePage(rw, number)
	}
}

func (s *testSnapshot) serveIndex(rw http.ResponseWriter) {
	x := snapshot.Index{ID: s.id, CreatedAt: second(2), Feed: s.feed, Pages: []string{}}
	for number := range s.parts {
		x.Pages = append(x.Pages, snapshotPageURL+strconv.Itoa(number))
	}
	data, err := json.Marshal(&x)
	if err != nil {
		panic(err)
	}
	rw.Header().Set("Content-Type", "application/json; charset=utf-8")
	_, _ = rw.Write(data)
}

func (s *testSnapshot) servePage(rw http.ResponseWriter, number int) {
	s.mu.Lock()
	s.open++
	s.mostOpen = max(s.mostOpen, s.open)
	s.mu.Unlock()
	if s.delay != nil {
		s.delay(number)
	}
	rw.Header().Set("Content-Type", page.ContentType("boundary"))
	var b bytes.Buffer
	w := page.NewWriter(&b, "boundary")
	for _, e := range s.parts[number] {
		if err := w.WritePart(e.AppendHeader(nil), e.Body); err != nil {
			panic(err)
		}
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	_, _ = rw.Write(b.Bytes())
	s.mu.Lock()
	s.open--
	s.mu.Unlock()
}

// bodies returns the bodies of the entities from the given number to the end.
func (s *testSnapshot) bodies(first int) (all []string) {
	for _, entities := range s.parts {
		for _, e := range entities {
			all = append(all, string(e.Body))
		}
	}
	return all[first:]
}

// TestSnapshotOrder: pages are requested concurrently and delivered in order, regardless of the order
// of the responses.
func TestSnapshotOrder(t *testing.T) {
	s := newSnapshot(newFeed("a0"), 9, 3)
	s.delay = func(number int) { time.Sleep(time.Duration(100-number*7%5) * time.Second / 10) }
	inWorld(t, s, func(t *testing.T, w *world) {
		var got []string
		begun := time.Now()
		for e, err := range w.newClient(Config{Concurrency: 3}).Snapshot(t.Context(), indexURL, feed.SnapshotPosition{}) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, string(e.Body))
		}
		if strings.Join(got, ",") != strings.Join(s.bodies(0), ",") {
			t.Errorf("got %q", got)
		}
		if took := time.Since(begun); s.mostOpen != 3 || took > 40*time.Second {
			t.Errorf("%d requests at a time, took %v", s.mostOpen, took)
		}
	})
}

// TestSnapshotResume stops after each entity and continues from its position.
func TestSnapshotResume(t *testing.T) {
	s := newSnapshot(newFeed("a0"), 3, 3)
	inWorld(t, s, func(t *testing.T, w *world) {
		c := w.newClient(Config{})
		for n := 1; n <= 9; n++ {
			var got []string
			var at feed.Position
			for e, err := range c.Snapshot(t.Context(), indexURL, feed.SnapshotPosition{}) {
				if err != nil {
					t.Fatal(err)
				}
				at = e.Position()
				if got = append(got, string(e.Body)); len(got) == n {
					break
				}
			}
			for e, err := range c.Snapshot(t.Context(), indexURL, *at.Snapshot) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, string(e.Body))
			}
			if strings.Join(got, ",") != strings.Join(s.bodies(0), ",") {
				t.Errorf("stopped after %d: got %q", n, got)
			}
		}
	})
}

// TestSnapshotReplaced: a position in a snapshot is not used for another snapshot at the same URL.
func TestSnapshotReplaced(t *testing.T) {
	s := newSnapshot(newFeed("a0"), 2, 2)
	inWorld(t, s, func(t *testing.T, w *world) {
		c := w.newClient(Config{})
		var at feed.Position
		for e, err := range c.Snapshot(t.Context(), indexURL, feed.SnapshotPosition{}) {
			if err != nil {
				t.Fatal(err)
			}
			at = e.Position()
			break
		}
		s.id = "id-2"
		for _, err := range c.Snapshot(t.Context(), indexURL, *at.Snapshot) {
			if !errors.Is(err, ErrSnapshotChanged) {
				t.Errorf("error is %v", err)
			}
		}
	})
}

// TestSnapshotContentLocation: the entry point that leads to the newest snapshot can name the
// snapshot's own URL, if the origin of this URL is allowed.
func TestSnapshotContentLocation(t *testing.T) {
	for location, want := range map[string]string{
		"/snapshot/by-id":                 "http://feed.test/snapshot/by-id#id-1",
		"http://elsewhere.test/snapshot/": indexURL + "#id-1",
	} {
		s := newSnapshot(newFeed("a0"), 1, 2)
		s.change = func(rw http.ResponseWriter, _ *http.Request) bool {
			rw.Header().Set("Content-Location", location)
			return false
		}
		inWorld(t, s, func(t *testing.T, w *world) {
			for e, err := range w.newClient(Config{}).Snapshot(t.Context(), indexURL, feed.SnapshotPosition{}) {
				if err != nil {
					t.Fatal(err)
				}
				if at := e.Position().Snapshot.Index; at != want {
					t.Errorf("position is in %q, want %q", at, want)
				}
			}
		})
	}
}

// TestSnapshotBroken: a page that is cut off is requested again; a malformed index is an error.
func TestSnapshotBroken(t *testing.T) {
	s := newSnapshot(newFeed("a0"), 4, 2)
	broken := make(map[string]bool)
	s.change = func(rw http.ResponseWriter, r *http.Request) bool {
		if broken[r.URL.Path] {
			return false
		}
		broken[r.URL.Path] = true
		rw.Header().Set("Content-Type", page.ContentType("boundary"))
		rw.Header().Set("Content-Length", "1000")
		_, _ = rw.Write([]byte("--boundary\r\n"))
		_ = http.NewResponseController(rw).Flush()
		panic(http.ErrAbortHandler)
	}
	inWorld(t, s, func(t *testing.T, w *world) {
		broken["/snapshot"] = true
		n := 0
		for _, err := range w.newClient(Config{Concurrency: 1}).Snapshot(t.Context(), indexURL, feed.SnapshotPosition{}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if n != 8 {
			t.Errorf("got %d entities", n)
		}
	})
	for name, test := range map[string]struct {
		kind, body string
		err        error
	}{
		"type":         {"text/html", "{}", ErrMediaType},
		"not JSON":     {"application/json", "{", snapshot.ErrInvalid},
		"schema":       {"application/json", `{"id":"1","pages":[]}`, snapshot.ErrInvalid},
		"relative URL": {"application/json", `{"id":"1","createdAt":"2024-01-01T00:00:00Z","pages":["/p/1"]}`, snapshot.ErrInvalid},
		"foreign page": {"application/json", `{"id":"1","createdAt":"2024-01-01T00:00:00Z","pages":["http://x.test/p/1"]}`, ErrOrigin},
		"too large":    {"application/json", `{"id":"1","createdAt":"2024-01-01T00:00:00Z","pages":[` + strings.Repeat(" ", maxIndex) + `]}`, ErrTooLarge},
		"large id":     {"application/json", `{"id":"` + strings.Repeat("x", 1<<20) + `"}`, snapshot.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			handler := func(rw http.ResponseWriter, _ *http.Request) {
				rw.Header().Set("Content-Type", test.kind)
				_, _ = rw.Write([]byte(test.body))
			}
			inWorld(t, http.HandlerFunc(handler), func(t *testing.T, w *world) {
				for _, err := range w.newClient(Config{}).Snapshot(t.Context(), indexURL, feed.SnapshotPosition{}) {
					if !errors.Is(err, test.err) || Retryable(err) {
						t.Errorf("error is %v, want %v", err, test.err)
					}
				}
			})
		})
	}
}

// TestSnapshotAbandoned stops the iteration while pages are in flight.
func TestSnapshotAbandoned(t *testing.T) {
	s := newSnapshot(newFeed("a0"), 9, 3)
	s.delay = func(number int) { time.Sleep(time.Duration(number) * time.Second) }
	inWorld(t, s, func(t *testing.T, w *world) {
		begun := time.Now()
		for _, err := range w.newClient(Config{}).Snapshot(t.Context(), indexURL, feed.SnapshotPosition{}) {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		if took := time.Since(begun); took > 0 {
			t.Errorf("stopping took %v", took)
		}
		synctest.Wait()
		checkLeaks(t)
		time.Sleep(time.Minute)
	})
}

// TestFromSnapshot reads a snapshot and then the feed. No entity is missed and, if the index has the
// position, none is repeated.
func TestFromSnapshot(t *testing.T) {
	for name, test := range map[string]struct {
		feed     string
		position *snapshot.FeedPosition
		want     string
	}{
		"exact position": {"a0 b1 | c2 d2 | e3", &snapshot.FeedPosition{URL: feedURL, LastModified: second(2).Add(700 * time.Millisecond),
			ContentID: "c", Page: pageURL + "2"}, "s0 s1 s2 s3 d e"},
		"position without page": {"a0 b1 | c2 d2 | e3", &snapshot.FeedPosition{URL: feedURL, LastModified: second(2), ContentID: "d"}, "s0 s1 s2 s3 e"},
		"position under another URL": {"a0 b1 | c2 d2 | e3", &snapshot.FeedPosition{URL: "http://bucket.test/feed", LastModified: second(2),
			ContentID: "c", Page: "http://bucket.test/2"}, "s0 s1 s2 s3 d e"},
		"creation time": {"a0 b1 | c2 d2 | e3", nil, "s0 s1 s2 s3 c d e"},
		"quiet feed":    {"a0 b1", nil, "s0 s1 s2 s3"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSnapshot(newFeed(test.feed), 2, 2)
			s.feed = test.position
			inWorld(t, s, func(t *testing.T, w *world) {
				var got []string
				for e, err := range w.newClient(Config{}).Entities(t.Context(), feedURL, FromSnapshot(indexURL)) {
					if err != nil {
						t.Fatal(err)
					}
					got = append(got, strings.TrimPrefix(string(e.Body), "body of "))
				}
				if all := strings.Join(got, " "); all != test.want {
					t.Errorf("got %q, want %q", all, test.want)
				}
			})
		})
	}
}
