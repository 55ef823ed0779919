package consumer

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/snapshot"
)

// A changingFeed is a random feed that grows while it is being read.
type changingFeed struct {
	*testFeed
	random *rand.Rand
	n      int
	alive  map[string]bool
}

func newChangingFeed(seed uint64, entities int) *changingFeed {
	f := &changingFeed{testFeed: &testFeed{chained: true}, random: rand.New(rand.NewPCG(seed, 1)), alive: map[string]bool{}}
	for range entities {
		f.publish()
	}
	return f
}

// publish publishes one entity, to the newest page or to a new one.
func (f *changingFeed) publish() {
	f.change(f.add)
}

func (f *changingFeed) add() {
	f.n++
	key := string(rune('a' + f.random.IntN(12)))
	what := feed.Put
	switch kind := f.random.IntN(10); {
	case f.alive[key] && kind < 5:
		what = feed.Patch
	case kind < 8:
		what = feed.Delete
	}
	f.alive[key] = what != feed.Delete
	e := operation(f.n, what, key)
	if len(f.pages) == 0 || f.random.IntN(4) == 0 {
		f.pages = append(f.pages, &testPage{number: len(f.pages) + 1})
	}
	p := f.pages[len(f.pages)-1]
	p.entities = append(p.entities, e)
}

var errKilled = errors.New("killed, for a test")

// TestNewestFirst reads random feeds that grow, and kills a run before each of its steps in turn or, with
// -short, before every fourth step. A step is a request or a call of the sink. The result is the same as
// that of reading in order. The second feed was pruned, and is read back to a snapshot.
func TestNewestFirst(t *testing.T) {
	every := 1
	if testing.Short() {
		every = 4
	}
	for seed := range uint64(2) {
		for step, killed := 1, true; killed; step += every {
			killed = killNewestFirst(t, seed, step)
		}
	}
}

// snapshot returns a snapshot of the first entities of the feed, and prunes the pages before it.
func (f *changingFeed) snapshot(t *testing.T, entities int) *testSnapshot {
	t.Helper()
	s := newSnapshot(f.testFeed, 0, 0)
	whole, left := f.pages, entities
	for n, p := range whole {
		if left <= len(p.entities) {
			last := p.entities[left-1]
			s.feed = &snapshot.FeedPosition{URL: feedURL, LastModified: last.LastModified, ContentID: last.ContentID, Page: pageURL + fmt.Sprint(n+1)}
			f.pages = append(whole[:n:n], &testPage{number: n + 1, entities: p.entities[:left]})
			f.floor = n + 1
			break
		}
		left -= len(p.entities)
	}
	rows := f.folded(t)
	f.pages = whole
	for key, body := range rows {
		e := feed.Entity{LastModified: epoch, ContentType: "text/plain", ContentLocation: key, Body: []byte(body)}
		s.parts = append(s.parts, []feed.Entity{e})
	}
	return s
}

func killNewestFirst(t *testing.T, seed uint64, step int) (killed bool) {
	t.Helper()
	f := newChangingFeed(seed, 24)
	sink := newRowSink(t)
	var mu sync.Mutex // requests are made concurrently
	steps, growth, running := 0, 25, true
	count := func(string) error {
		mu.Lock()
		defer mu.Unlock()
		if !running {
			return nil
		}
		if steps++; steps == step {
			killed = true
		}
		if steps >= step {
			return errKilled // a dead process takes no step
		}
		return nil
	}
	grows := func() bool {
		mu.Lock()
		defer mu.Unlock()
		growth--
		return growth > 0
	}
	f.intercept = func(rw http.ResponseWriter, r *http.Request, _ int) bool {
		if grows() {
			f.publish()
		}
		time.Sleep(time.Second)
		if count("request") != nil {
			http.Error(rw, "", http.StatusForbidden)
			return true
		}
		return false
	}
	var handler http.Handler = f
	var from Start
	if seed == 1 {
		s := f.snapshot(t, 17)
		s.change = func(rw http.ResponseWriter, r *http.Request) bool {
			return strings.HasPrefix(r.URL.Path, "/snapshot") && f.intercept(rw, r, 0)
		}
		handler, from = s, FromSnapshot(indexURL)
	}
	inWorld(t, handler, func(t *testing.T, w *world) {
		config := Config{PollInterval: 2 * time.Second, MaxHeld: 100} // most pages are spooled to a file
		job := Job{Client: w.newClient(config), URL: feedURL, Sink: sink, From: from, NewestFirst: true, BatchEntities: 1 + int(seed)*2}
		sink.before = count
		if _, err := job.Run(t.Context()); err == nil && killed {
			t.Fatal("no error")
		} else if err != nil && !killed {
			t.Fatal(err)
		}
		mu.Lock()
		running, growth = false, 5
		mu.Unlock()
		if _, err := job.Run(t.Context()); err != nil {
			t.Fatalf("seed %d, killed at step %d: %v", seed, step, err)
		}
		sink.expect(f.folded(t))
		if sink.at.Tail != nil || sink.at.ContentID != fmt.Sprintf("<%d>", f.n) {
			t.Fatalf("position is %+v", sink.at)
		}
	})
	return killed
}

// TestNewestFirstMeanwhile: during the backfill, new entities delete, put and patch keys that have not been
// read yet.
func TestNewestFirstMeanwhile(t *testing.T) {
	f := &testFeed{}
	for n, entities := range [][]feed.Entity{
		{operation(1, feed.Put, "a"), operation(2, feed.Put, "b"), operation(3, feed.Put, "e")},
		{operation(4, feed.Put, "c"), operation(5, feed.Patch, "e")},
		{operation(6, feed.Put, "d")},
	} {
		f.pages = append(f.pages, &testPage{number: n + 1, entities: entities})
	}
	published := false
	f.intercept = func(_ http.ResponseWriter, _ *http.Request, number int) bool {
		if number == 2 && !published {
			published = true
			f.change(func() {
				newest := f.pages[2]
				newest.entities = append(newest.entities, operation(7, feed.Delete, "a"), operation(8, feed.Put, "b"),
					operation(9, feed.Patch, "c"), operation(10, feed.Patch, "e"))
			})
		}
		time.Sleep(time.Second)
		return false
	}
	inWorld(t, f, func(t *testing.T, w *world) {
		sink := newRowSink(t)
		job := Job{Client: w.newClient(Config{PollInterval: time.Second}), URL: feedURL, Sink: sink, NewestFirst: true}
		if _, err := job.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		sink.expect(map[string]string{"b": "pu8;", "c": "pu4;pa9;", "d": "pu6;", "e": "pu3;pa5;pa10;"})
		if tail := sink.positions[1].Tail; tail == nil || sink.positions[1].ContentID != "<10>" {
			t.Errorf("new entities were not read before the tail: %+v", sink.positions)
		}
	})
}

// TestNewestFirstReadsLittle: the newest entities are in the sink after their pages have been read, and
// no page is read twice.
func TestNewestFirstReadsLittle(t *testing.T) {
	var pages []string
	for n := range 100 {
		pages = append(pages, strings.Repeat(fmt.Sprintf(" x%d", n), 10))
	}
	f := newFeed(strings.Join(pages, " |"))
	for n, p := range f.pages {
		for i := range p.entities {
			p.entities[i].ContentID = fmt.Sprintf("<%d.%d>", n, i)
			p.entities[i].ContentLocation = fmt.Sprintf("key-%d-%d", n, i)
		}
	}
	inWorld(t, f, func(t *testing.T, w *world) {
		sink := newRowSink(t)
		var atFirst, atFifty int
		requested := 0
		job := Job{Client: w.newClient(Config{}), URL: feedURL, Sink: sink, NewestFirst: true, BatchEntities: 10}
		job.Progress = func(p Progress) {
			requested += len(w.requests())
			if atFirst == 0 {
				atFirst = requested
			}
			if atFifty == 0 && len(sink.committed.rows) >= 50 {
				atFifty = requested
			}
		}
		stats, err := job.Run(t.Context())
		if err != nil || stats.Entities != 1000 || len(sink.committed.rows) != 1000 {
			t.Fatalf("%+v, %d rows: %v", stats, len(sink.committed.rows), err)
		}
		// The limits allow for the previous page, which is requested ahead, and for the newest page, which
		// is requested to find the end of the feed.
		if atFirst > 3 || atFifty > 8 {
			t.Errorf("%d requests for the first commit, %d for 50 entities", atFirst, atFifty)
		}
		if requested += len(w.requests()); requested > 104 {
			t.Errorf("%d requests for 100 pages", requested)
		}
	})
}

// TestNewestFirstPruned: the feed was pruned, which is noticed because its oldest page says so, or because a
// page disappears.
func TestNewestFirstPruned(t *testing.T) {
	for name, change := range map[string]func(f *testFeed){
		"before": func(f *testFeed) { f.floor = 2 },
		"while it is read": func(f *testFeed) {
			f.intercept = func(_ http.ResponseWriter, _ *http.Request, number int) bool {
				if number == 1 {
					f.prune(2)
				}
				return false
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFeed("a0 b1 | c2 d3 | e4")
			f.chained = true
			change(f)
			inWorld(t, f, func(t *testing.T, w *world) {
				sink := newRowSink(t)
				job := Job{Client: w.newClient(Config{}), URL: feedURL, Sink: sink, NewestFirst: true}
				for range 2 {
					_, err := job.Run(t.Context())
					var tail *TailError
					if !errors.As(err, &tail) || tail.Page != pageURL+"2" || !IsGap(err) {
						t.Fatalf("error is %v", err)
					}
					if len(sink.committed.rows) != 3 || sink.at.Tail == nil || sink.at.Tail.ContentID != "c" {
						t.Fatalf("rows %v, position %+v", sink.committed.rows, sink.at)
					}
				}
				job.OnGap = GapReplay
				if stats, err := job.Run(t.Context()); err != nil || stats.Gaps != 1 || sink.at.Tail != nil || sink.at.ContentID != "e" {
					t.Fatalf("%+v: %v; position %+v", stats, err, sink.at)
				}
			})
		})
	}
}

// TestNewestFirstWithoutBase: the feed has a patch of a key without a PUT of that key.
func TestNewestFirstWithoutBase(t *testing.T) {
	f := &testFeed{chained: true, pages: []*testPage{{number: 1, entities: []feed.Entity{operation(1, feed.Patch, "a"), operation(2, feed.Put, "b")}}}}
	inWorld(t, f, func(t *testing.T, w *world) {
		sink := newRowSink(t)
		job := Job{Client: w.newClient(Config{}), URL: feedURL, Sink: sink, NewestFirst: true}
		_, err := job.Run(t.Context())
		var tail *TailError
		if !errors.As(err, &tail) || tail.Held != 1 || !strings.Contains(err.Error(), "1 PATCH") {
			t.Fatalf("error is %v", err)
		}
	})
}

// TestNewestFirstRefused: a sink that cannot be filled newest first is refused before anything is requested.
func TestNewestFirstRefused(t *testing.T) {
	inWorld(t, newFeed("a0"), func(t *testing.T, w *world) {
		job := Job{Client: w.newClient(Config{}), URL: feedURL, Sink: &memorySink{t: t}, NewestFirst: true}
		if _, err := job.Run(t.Context()); !errors.Is(err, ErrNoBackfill) {
			t.Errorf("error is %v", err)
		}
		job.Sink, job.From = newRowSink(t), Latest()
		if _, err := job.Run(t.Context()); err == nil {
			t.Error("newest first from Latest was accepted")
		}
		if got := w.requests(); len(got) > 0 {
			t.Errorf("requests: %v", got)
		}
	})
}
