package producer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/page"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/file"
	"github.com/feedctl/feedctl/storage/memory"
)

func open(t *testing.T, store storage.Store, c producer.Config) *producer.Feed {
	t.Helper()
	f, err := producer.Open(t.Context(), store, testFeed, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func newest(t *testing.T, store storage.Store) *chain.Page {
	t.Helper()
	p, err := chain.NewReader(store, testFeed).Newest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestManyPublishers checks that each entity is in the feed exactly once, and that the entities of
// each publisher are in the order in which they were acknowledged.
func TestManyPublishers(t *testing.T) {
	stores := map[string]func(*testing.T) storage.Store{
		"memory": func(*testing.T) storage.Store { return memory.New() },
		"file": func(t *testing.T) storage.Store {
			s, err := file.New(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
	}
	const publishers, each = 32, 50
	for name, newStore := range stores {
		t.Run(name, func(t *testing.T) {
			store := newStore(t)
			var feeds []*producer.Feed
			for range 3 { // like three processes
				feeds = append(feeds, open(t, store, producer.Config{MaxPageEntities: 40}))
			}
			var group sync.WaitGroup
			for k := range publishers {
				group.Go(func() {
					for n := range each {
						id := fmt.Sprintf("<%d-%d@test>", k, n)
						if _, err := feeds[k%len(feeds)].Publish(context.Background(), entities([]string{id})...); err != nil {
							t.Errorf("publish %s: %v", id, err)
							return
						}
					}
				})
			}
			group.Wait()
			next := map[int]int{}
			for _, id := range visibleIDs(t, store) {
				var k, n int
				if _, err := fmt.Sscanf(id, "<%d-%d@test>", &k, &n); err != nil {
					t.Fatal(err)
				}
				if n != next[k] {
					t.Fatalf("publisher %d: entity %d, want %d", k, n, next[k])
				}
				next[k]++
			}
			for k := range publishers {
				if next[k] != each {
					t.Errorf("publisher %d: %d entities in the feed, want %d", k, next[k], each)
				}
			}
		})
	}
}

func TestPublishAgain(t *testing.T) {
	store := memory.New()
	first := open(t, store, producer.Config{MaxPageEntities: 3})
	if _, err := first.Publish(t.Context(), entities(ids(1, 10))...); err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]*producer.Feed{"same": first, "other": open(t, store, producer.Config{MaxPageEntities: 3})} {
		got, err := f.Publish(t.Context(), entities(ids(5, 10))...)
		if err != nil || got.Published != 0 || got.Duplicates != 6 {
			t.Errorf("%s producer: %+v, %v", name, got, err)
		}
	}
	got, err := first.Publish(t.Context(), entities([]string{"<10@test>", "<11@test>", "<11@test>"})...)
	if err != nil || got.Published != 1 || got.Duplicates != 2 || got.ContentID != "<11@test>" {
		t.Errorf("%+v, %v", got, err)
	}
	if got := visibleIDs(t, store); !slices.Equal(got, ids(1, 11)) {
		t.Errorf("the feed has %v", got)
	}
}

func TestContentIDsAreGiven(t *testing.T) {
	f := open(t, memory.New(), producer.Config{})
	a, b := entities([]string{""})[0], entities([]string{""})[0]
	if _, err := f.Publish(t.Context(), a, b); err != nil {
		t.Fatal(err)
	}
	if a.ContentID == "" || a.ContentID == b.ContentID || !strings.HasSuffix(a.ContentID, "@test>") {
		t.Errorf("Content-IDs %q and %q", a.ContentID, b.ContentID)
	}
}

func TestClock(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 123_456_789, time.UTC)
	for _, test := range []struct {
		name    string
		publish []time.Duration // the producer's clock at each publication, relative to the clock of the store
		want    []time.Duration // Last-Modified of the newest page, in the same form; -1: refused
	}{
		{"forwards", []time.Duration{0, time.Second}, []time.Duration{0, time.Second}},
		{"back", []time.Duration{0, -time.Hour, -time.Minute, time.Second}, []time.Duration{0, 0, 0, time.Second}},
		{"a little ahead, then right", []time.Duration{30 * time.Second, 0}, []time.Duration{30 * time.Second, 30 * time.Second}},
		{"far ahead", []time.Duration{0, time.Hour, 0}, []time.Duration{0, -1, 0}},
	} {
		t.Run(test.name, func(t *testing.T) {
			store := clocked{memory.New(), start}
			var now time.Duration
			f := open(t, store, producer.Config{Now: func() time.Time { return start.Add(now) }})
			for n := range test.publish {
				now = test.publish[n]
				_, err := f.Publish(t.Context(), entities(ids(n, n))...)
				if refused := errors.Is(err, producer.ErrClock); refused != (test.want[n] < 0) || err != nil && !refused {
					t.Fatalf("publish %d: %v", n, err)
				}
				if err != nil {
					continue
				}
				if got, want := newest(t, store).Last, start.Add(test.want[n]).Truncate(time.Millisecond); !got.Equal(want) {
					t.Errorf("publish %d: Last-Modified %v, want %v", n, got, want)
				}
			}
		})
	}
}

// A clocked is a store with a clock that does not advance.
type clocked struct {
	storage.Store
	now time.Time
}

func (c clocked) Now(context.Context) (time.Time, error) { return c.now, nil }

func TestFeedAheadOfTheClock(t *testing.T) {
	store := memory.New()
	ahead := func() time.Time { return time.Now().Add(time.Hour) }
	poisoner := open(t, store, producer.Config{Now: ahead, MaxClockSkew: 2 * time.Hour})
	if _, err := poisoner.Publish(t.Context(), entities(ids(1, 1))...); err != nil {
		t.Fatal(err)
	}
	_, err := open(t, store, producer.Config{}).Publish(t.Context(), entities(ids(2, 2))...)
	if !errors.Is(err, producer.ErrClock) || !strings.Contains(err.Error(), "newest entity is from") {
		t.Errorf("publish to a feed with a time in the future: %v", err)
	}
}

func TestPageLimits(t *testing.T) {
	store := memory.New()
	f := open(t, store, producer.Config{MaxPageBytes: 2000, MaxPageEntities: 5})
	sizes := []int{100, 100, 1500, 900, 5000, 10, 10, 10, 10, 10, 10}
	for n, size := range sizes {
		e := &feed.Entity{ContentID: ids(n, n)[0], Operation: feed.Put, ContentType: "text/plain", Body: bytes.Repeat([]byte("x"), size)}
		if _, err := f.Publish(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	var got []int
	reader := chain.NewReader(store, testFeed)
	for n := int64(1); n <= newest(t, store).Number; n++ {
		p, err := reader.Stat(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, p.Entities)
		if p.Entities > 1 && p.Size > 2000+100 { // plus the closing delimiter
			t.Errorf("page %d has %d bytes", n, p.Size)
		}
	}
	if want := []int{2, 1, 1, 1, 5, 1}; !slices.Equal(got, want) {
		t.Errorf("entities on the pages: %v, want %v", got, want)
	}
}

// TestBoundaryInBody publishes a body that would look like another entity on the open page.
func TestBoundaryInBody(t *testing.T) {
	store := memory.New()
	f := open(t, store, producer.Config{})
	if _, err := f.Publish(t.Context(), entities(ids(1, 1))...); err != nil {
		t.Fatal(err)
	}
	boundary := newest(t, store).Boundary
	forged := "\r\n--" + boundary + "\r\nContent-ID: <forged@test>\r\n\r\nforged\r\n--" + boundary + "--\r\n"
	for name, e := range map[string]*feed.Entity{
		"body":   {ContentID: "<a@test>", Operation: feed.Put, ContentType: "text/plain", Body: []byte(forged)},
		"stream": {ContentID: "<b@test>", Operation: feed.Put, ContentType: "text/plain", Stream: strings.NewReader(forged), Size: -1},
	} {
		if _, err := f.Publish(t.Context(), e); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	reader := chain.NewReader(store, testFeed)
	entities := 0
	for n := int64(1); n <= newest(t, store).Number; n++ {
		p, object, err := reader.Open(t.Context(), n, 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		for part, err := range page.NewReader(p.Whole(object.Body), p.Boundary, page.ReaderOptions{}).Parts() {
			if err != nil {
				t.Fatal(err)
			}
			if id := string(part.Header.Get("Content-ID")); id == "<forged@test>" {
				t.Error("an entity was forged")
			}
			entities++
		}
	}
	if entities != 3 {
		t.Errorf("the feed has %d entities, want 3", entities)
	}
}

func TestRefused(t *testing.T) {
	f := open(t, memory.New(), producer.Config{MaxEntity: 10})
	good := func() *feed.Entity {
		return &feed.Entity{Operation: feed.Put, ContentType: "text/plain", Body: []byte("x")}
	}
	for name, change := range map[string]func(*feed.Entity){
		"line break in a header":   func(e *feed.Entity) { e.Header = []feed.Field{{Name: "X-A", Value: "b\r\nContent-ID: c"}} },
		"line break in Content-ID": func(e *feed.Entity) { e.ContentID = "a\nb" },
		"no Content-Type":          func(e *feed.Entity) { e.ContentType = "" },
		"no operation":             func(e *feed.Entity) { e.Operation = "" },
		"body too large":           func(e *feed.Entity) { e.Body = make([]byte, 11) },
	} {
		bad := good()
		change(bad)
		if _, err := f.Publish(t.Context(), good(), bad); !errors.Is(err, producer.ErrInvalid) || !strings.Contains(err.Error(), "entity 1") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := f.Publish(t.Context()); !errors.Is(err, producer.ErrInvalid) {
		t.Errorf("nothing: %v", err)
	}
	for _, name := range []string{"", "..", "a/b", "a b"} {
		if _, err := producer.Open(t.Context(), memory.New(), name, producer.Config{}); !errors.Is(err, layout.ErrName) {
			t.Errorf("feed %q: %v", name, err)
		}
	}
}

func TestCheckpoint(t *testing.T) {
	store := memory.New()
	a, b := open(t, store, producer.Config{MaxPageEntities: 4}), open(t, store, producer.Config{MaxPageEntities: 4})
	read := func() string {
		c, err := a.Checkpoint(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return string(c)
	}
	batch := func(from, to int, previous, checkpoint string) producer.Batch {
		return producer.Batch{Entities: entities(ids(from, to)), Previous: []byte(previous), Checkpoint: []byte(checkpoint)}
	}
	if got := read(); got != "" {
		t.Fatalf("checkpoint of a new feed: %q", got)
	}
	if _, err := a.PublishBatch(t.Context(), batch(1, 10, "", "ten")); err != nil {
		t.Fatal(err)
	}
	if got := read(); got != "ten" {
		t.Fatalf("checkpoint %q", got)
	}
	if _, err := b.PublishBatch(t.Context(), batch(11, 12, "", "other")); !errors.Is(err, producer.ErrCheckpoint) {
		t.Fatalf("batch with another previous checkpoint: %v", err)
	}
	if _, err := b.PublishBatch(t.Context(), batch(11, 19, "ten", "nineteen")); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Publish(t.Context(), entities(ids(20, 20))...); err != nil {
		t.Fatal(err)
	}
	if got := read(); got != "nineteen" {
		t.Fatalf("checkpoint %q after a publish without one", got)
	}
	// Repeating the batch, as after an error, has no effect.
	if r, err := b.PublishBatch(t.Context(), batch(11, 19, "ten", "nineteen")); err != nil || r.Duplicates != 9 {
		t.Fatalf("the same batch again: %+v, %v", r, err)
	}
	if got := visibleIDs(t, store); !slices.Equal(got, ids(1, 20)) {
		t.Errorf("the feed has %v", got)
	}
	if _, err := a.PublishBatch(t.Context(), producer.Batch{Entities: entities(ids(21, 21)), Checkpoint: make([]byte, chain.MaxCheckpoint+1)}); !errors.Is(err, producer.ErrInvalid) {
		t.Errorf("checkpoint too large: %v", err)
	}
}

// TestCancel cancels the context of a call of Publish whose commit never ends.
func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scheduler{base: memory.New()}
		w := &writer{scheduler: s, name: "w"}
		f, err := producer.Open(t.Context(), w, testFeed, producer.Config{})
		if err != nil {
			t.Fatal(err)
		}
		first := make(chan error, 1)
		go func() {
			_, err := f.Publish(t.Context(), entities(ids(1, 1))...)
			first <- err
		}()
		synctest.Wait() // the first commit is in flight, and the store does not respond
		ctx, cancel := context.WithCancel(t.Context())
		second := make(chan error, 1)
		go func() {
			_, err := f.Publish(ctx, entities(ids(2, 2))...)
			second <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-second; !errors.Is(err, context.Canceled) || errors.Is(err, producer.ErrUnknown) {
			t.Errorf("cancelled while waiting: %v", err)
		}
		for done := false; !done; {
			synctest.Wait()
			select {
			case err := <-first:
				if err != nil {
					t.Error(err)
				}
				done = true
			default:
				for _, op := range s.waiting() {
					s.land(op)
				}
			}
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if _, err := f.Publish(t.Context(), entities(ids(3, 3))...); !errors.Is(err, producer.ErrClosed) {
			t.Errorf("publish after Close: %v", err)
		}
		if got := visibleIDs(t, s.base); !slices.Equal(got, ids(1, 1)) {
			t.Errorf("the feed has %v", got)
		}
	})
}

// TestCorruptTail checks that nothing is appended to a page whose content does not match its metadata.
func TestCorruptTail(t *testing.T) {
	store := memory.New()
	mustPublish(t, store, ids(1, 1))
	p := newest(t, store)
	meta, err := p.Meta()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Replace(t.Context(), layout.FeedPage(testFeed, 1), p.Version, meta, storage.Bytes(make([]byte, p.Size))); err != nil {
		t.Fatal(err)
	}
	if err := publishIDs(t.Context(), store, ids(2, 2)); !errors.Is(err, chain.ErrCorrupt) {
		t.Errorf("publish to a corrupt page: %v", err)
	}
}

// TestRefusing checks that an error is reported at once if the store refuses to write, and that none
// of the entities is in the feed then or later.
func TestRefusing(t *testing.T) {
	for _, refusal := range []error{storage.ErrFull, storage.ErrPermission, storage.ErrNoStore, storage.ErrUnsafe} {
		synctest.Test(t, func(t *testing.T) {
			store := &refusing{Store: memory.New(), err: refusal}
			f := open(t, store, producer.Config{MaxPageEntities: 3})
			if _, err := f.Publish(t.Context(), entities(ids(1, 8))...); !errors.Is(err, refusal) || errors.Is(err, producer.ErrUnknown) {
				t.Errorf("publish: %v", err)
			}
			if n := store.creates.Load(); n > 3 {
				t.Errorf("%v was retried: %d pages were created, want at most 3", refusal, n)
			}
			store.err = nil
			if _, err := f.Publish(t.Context(), entities(ids(9, 9))...); err != nil {
				t.Fatal(err)
			}
			if got := visibleIDs(t, store); !slices.Equal(got, ids(9, 9)) {
				t.Errorf("the feed has %v", got)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestFullMidway publishes a batch. The store turns out to be full when the first pages are already in
// the feed, so the error must not say that nothing was published.
func TestFullMidway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &refusing{Store: memory.New(), err: storage.ErrFull, but: layout.FeedPage(testFeed, 1)}
		f := open(t, store, producer.Config{MaxPageEntities: 1})
		_, err := f.Publish(t.Context(), entities(ids(1, 3))...)
		if !errors.Is(err, storage.ErrFull) || !errors.Is(err, producer.ErrUnknown) {
			t.Errorf("publish: %v", err)
		}
		if got := visibleIDs(t, store); !slices.Equal(got, ids(1, 1)) {
			t.Errorf("the feed has %v", got)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
}

// refusing is a store that refuses to create objects if err is set.
type refusing struct {
	storage.Store
	err     error
	but     string // the key of an object that it creates nevertheless
	creates atomic.Int64
}

func (s *refusing) Create(ctx context.Context, key string, meta storage.Meta, body storage.Body) (storage.Version, error) {
	s.creates.Add(1)
	if s.err != nil && key != s.but && (s.but == "" || key != layout.FeedFloor(testFeed)) {
		return "", fmt.Errorf("create %s: %w", key, s.err)
	}
	return s.Store.Create(ctx, key, meta, body)
}
