package fromstore_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/consumer/fromstore"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/inprocess"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/snapshot"
	"github.com/feedctl/feedctl/snapshot/snapshots"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

const name = "file:///srv/data"

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// publish publishes n entities in pages of three. Their Content-IDs are numbers beginning with
// from.
func publish(t testing.TB, store storage.Store, from, n int) {
	t.Helper()
	f, err := producer.Open(context.Background(), store, "f", producer.Config{MaxPageEntities: 3, SpoolDir: t.TempDir()})
	check(t, err)
	for i := from; i < from+n; i++ {
		_, err := f.Publish(context.Background(), &feed.Entity{
			ContentID: fmt.Sprintf("<%d>", i), Operation: feed.Put, ContentType: "text/plain", Body: fmt.Append(nil, "text ", i),
		})
		check(t, err)
	}
	check(t, f.Close())
}

// writeSnapshot writes a snapshot of two pages.
func writeSnapshot(t testing.TB, store storage.Store) *snapshot.Index {
	t.Helper()
	index, err := snapshots.Write(context.Background(), store, "s", func(yield func(*feed.Entity, error) bool) {
		for i := range 2 {
			e := &feed.Entity{ContentType: "text/plain", ContentLocation: fmt.Sprint(i), Body: fmt.Append(nil, "state ", i), LastModified: time.Now()}
			if !yield(e, nil) {
				return
			}
		}
	}, snapshots.Config{
		MaxPageBytes: 1, SpoolDir: t.TempDir(),
		Feed: &snapshot.FeedPosition{URL: layout.FeedPath("f"), Page: layout.FeedPagePath("f", 1), LastModified: time.Now(), ContentID: "<1>"},
	})
	check(t, err)
	return index
}

func newClient(t testing.TB, store storage.Store, c consumer.Config) (*consumer.Client, *fromstore.Source) {
	t.Helper()
	source := fromstore.New(store, fromstore.Config{Name: name})
	t.Cleanup(source.Close)
	c.Source = source
	client, err := consumer.New(c)
	check(t, err)
	return client, source
}

// seen returns what a consumer learns about each entity, and the position after the last one.
func seen(t testing.TB, entities iter.Seq2[*consumer.Entity, error]) (all []string, last feed.Position) {
	t.Helper()
	for e, err := range entities {
		check(t, err)
		last = e.Position()
		position, err := json.Marshal(last)
		check(t, err)
		all = append(all, fmt.Sprintf("%s %s %s %s %d %s", e.ContentID, e.ContentLocation, e.Body, e.LastModified.Format(time.RFC3339), e.Offset, position))
	}
	return all, last
}

// TestAsFromServer: a consumer of a store receives the same as a consumer of a server, except for
// names, wherever they begin.
func TestAsFromServer(t *testing.T) {
	store := memory.New()
	publish(t, store, 0, 8)
	index := writeSnapshot(t, store)
	handler, err := server.New(store, server.Config{})
	check(t, err)
	defer handler.Close(t.Context())
	const origin = "http://store.example"
	web, err := consumer.New(consumer.Config{HTTPClient: &http.Client{Transport: inprocess.Transport(handler)}})
	check(t, err)
	local, source := newClient(t, store, consumer.Config{})
	for what, read := range map[string]func(c *consumer.Client, name string) iter.Seq2[*consumer.Entity, error]{
		"feed": func(c *consumer.Client, name string) iter.Seq2[*consumer.Entity, error] {
			return c.Entities(t.Context(), name+"/feeds/f", consumer.Beginning())
		},
		"feed from a position": func(c *consumer.Client, name string) iter.Seq2[*consumer.Entity, error] {
			_, at := seen(t, func(yield func(*consumer.Entity, error) bool) {
				for e, err := range c.Entities(t.Context(), name+"/feeds/f", consumer.Beginning()) {
					if !yield(e, err) || e.ContentID == "<3>" {
						return
					}
				}
			})
			at.Page = name + layout.FeedPagePath("f", 2)
			return c.Entities(t.Context(), name+"/feeds/f", consumer.After(at))
		},
		"snapshot": func(c *consumer.Client, name string) iter.Seq2[*consumer.Entity, error] {
			return c.Snapshot(t.Context(), name+"/snapshots/s", feed.SnapshotPosition{})
		},
		"snapshot, then feed": func(c *consumer.Client, name string) iter.Seq2[*consumer.Entity, error] {
			return c.Entities(t.Context(), name+"/feeds/f", consumer.FromSnapshot(name+layout.SnapshotIndexPath("s", index.ID)))
		},
	} {
		want, _ := seen(t, read(web, origin))
		got, _ := seen(t, read(local, name))
		for i := range want {
			want[i] = strings.ReplaceAll(want[i], origin, name)
		}
		if diff := cmp.Diff(want, got); diff != "" || len(want) == 0 {
			t.Errorf("%s (-server +store):\n%s", what, diff)
		}
	}
	got, err := local.Index(t.Context(), source.Snapshot("s"))
	check(t, err)
	if got.ID != index.ID || got.Feed.URL != source.Feed("f") || got.Pages[1] != name+layout.SnapshotPagePath("s", index.ID, 1) {
		t.Errorf("index %+v, %+v", got, got.Feed)
	}
}

// TestOldPositions: positions recorded under another name of the store are valid as long as the
// store has the page that they refer to.
func TestOldPositions(t *testing.T) {
	store := memory.New()
	publish(t, store, 0, 8)
	index := writeSnapshot(t, store)
	client, source := newClient(t, store, consumer.Config{})
	for _, other := range []string{"http://store.invalid", "file:///moved", "postgres://h/db?schema=x", ""} {
		at := feed.Position{ContentID: "<4>", LastModified: time.Now().Add(time.Hour), Page: other + layout.FeedPagePath("f", 2)}
		if got, _ := seen(t, client.Entities(t.Context(), source.Feed("f"), consumer.After(at))); len(got) != 3 {
			t.Errorf("%q: %q", other, got)
		}
		in := feed.SnapshotPosition{Index: other + layout.SnapshotIndexPath("s", index.ID) + "#" + index.ID, Page: 1}
		if got, _ := seen(t, client.Snapshot(t.Context(), source.Snapshot("s"), in)); len(got) != 1 {
			t.Errorf("%q: %q", other, got)
		}
	}
}

// TestNotThere: errors say what is missing, with the name of the store.
func TestNotThere(t *testing.T) {
	store := memory.New()
	publish(t, store, 0, 8)
	writeSnapshot(t, store)
	_, err := chain.RaiseFloor(t.Context(), store, "f", 2)
	check(t, err)
	_, source := newClient(t, store, consumer.Config{})
	for url, kind := range map[string]consumer.Kind{
		"/feeds/none": consumer.FeedPage, "/feeds/none/pages/1": consumer.FeedPage, "/feeds/f/pages/1": consumer.FeedPage, "/feeds/f/pages/4": consumer.FeedPage,
		"/snapshots/none": consumer.SnapshotIndex, "/snapshots/s/none": consumer.SnapshotIndex, "/snapshots/s/none/pages/0": consumer.SnapshotPage,
	} {
		for _, head := range []bool{false, true} {
			if _, err := source.Get(t.Context(), consumer.Request{URL: name + url, Kind: kind, Head: head}); !errors.Is(err, consumer.ErrNotFound) {
				t.Errorf("%s: %v", url, err)
			}
		}
	}
	for _, url := range []string{"", "f", "/feeds/", "/feeds/a/b", "/feeds/f/pages/0", "/feeds/f/pages/01", "/feeds/f/pages/x", "/snapshots/s/x/pages/-1", "https://h/zones"} {
		if _, err := source.Get(t.Context(), consumer.Request{URL: url}); !errors.Is(err, consumer.ErrOrigin) {
			t.Errorf("%q: %v", url, err)
		}
	}
	client, source := newClient(t, store, consumer.Config{})
	for _, err := range client.Entities(t.Context(), source.Feed("none"), consumer.Beginning()) {
		if want := "get file:///srv/data/feeds/none: feed \"none\": feed has no pages"; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestFollow waits for entities on the same page, on the next one, and of a feed that does
// not exist yet, in a store that reports changes and in one that does not.
func TestFollow(t *testing.T) {
	for what, wrap := range map[string]func(storage.Store) storage.Store{
		"watched": func(s storage.Store) storage.Store { return s },
		"polled":  func(s storage.Store) storage.Store { return struct{ storage.Store }{s} },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memory.New()
				client, source := newClient(t, wrap(store), consumer.Config{Follow: true})
				ctx, cancel := context.WithCancel(t.Context())
				got := make(chan string)
				done := make(chan struct{})
				go func() {
					defer close(done)
					for e, err := range client.Entities(ctx, source.Feed("f"), consumer.Beginning()) {
						if err != nil {
							return
						}
						got <- e.ContentID
					}
				}()
				for i := range 8 {
					time.Sleep(time.Minute)
					publish(t, store, i, 1)
					if id := <-got; id != fmt.Sprintf("<%d>", i) {
						t.Errorf("entity %d is %s", i, id)
					}
				}
				cancel()
				<-done
				source.Close()
			})
		})
	}
}

// A damagedStore changes one byte of an object, or fails to read the object.
type damagedStore struct {
	storage.Store
	key string
	err error
	*reads
}

type reads struct{ bytes atomic.Int64 }

func (s damagedStore) Get(ctx context.Context, key string, offset, length int64) (*storage.Object, error) {
	object, err := s.Store.Get(ctx, key, offset, length)
	if err != nil {
		return nil, err
	}
	if key == s.key && s.err != nil {
		return nil, s.err
	}
	data, err := io.ReadAll(object.Body)
	if key == s.key && len(data) > 0 {
		data = bytes.Clone(data)
		data[len(data)/2] ^= 1
	}
	s.bytes.Add(int64(len(data)))
	object.Body = io.NopCloser(bytes.NewReader(data))
	return object, err
}

// TestDamage: damage and denied access are permanent errors. Each undamaged byte is read once.
func TestDamage(t *testing.T) {
	store := memory.New()
	publish(t, store, 0, 8)
	index := writeSnapshot(t, store)
	read := func(store storage.Store, key string) error {
		client, source := newClient(t, store, consumer.Config{})
		entities := client.Entities(t.Context(), source.Feed("f"), consumer.Beginning())
		if strings.HasPrefix(key, "snapshots/") {
			entities = client.Snapshot(t.Context(), source.Snapshot("s"), feed.SnapshotPosition{})
		}
		for _, err := range entities {
			if err != nil {
				return err
			}
		}
		return nil
	}
	for _, key := range []string{
		layout.FeedPage("f", 1), layout.FeedPage("f", 3), layout.SnapshotIndex("s", index.ID), layout.SnapshotPage("s", index.ID, 1),
	} {
		if err := read(damagedStore{store, key, nil, new(reads)}, key); !errors.Is(err, chain.ErrCorrupt) || !strings.Contains(err.Error(), key) {
			t.Errorf("%s, damaged: %v", key, err)
		}
		if err := read(damagedStore{store, key, storage.ErrPermission, new(reads)}, key); !errors.Is(err, storage.ErrPermission) || consumer.Retryable(err) {
			t.Errorf("%s, unreadable: %v", key, err)
		}
	}
	size, counted := int64(0), new(reads)
	for entry, err := range store.List(t.Context(), layout.FeedPages("f"), "") {
		check(t, err)
		info, err := store.Stat(t.Context(), entry.Key)
		check(t, err)
		size += info.Size
	}
	check(t, read(damagedStore{store, "", nil, counted}, "feeds/"))
	if got := counted.bytes.Load(); got != size {
		t.Errorf("%d bytes were read of %d", got, size)
	}
}

// A countingSink counts entities. It keeps the position in memory.
type countingSink struct {
	at       feed.Position
	entities int
}

func (s *countingSink) Position(context.Context) (feed.Position, error)  { return s.at, nil }
func (s *countingSink) Begin(context.Context) (consumer.Batch, error)    { return s, nil }
func (s *countingSink) Apply(context.Context, *feed.Entity) error        { s.entities++; return nil }
func (s *countingSink) Commit(_ context.Context, at feed.Position) error { s.at = at; return nil }
func (s *countingSink) Rollback(context.Context) error                   { return nil }
func (s *countingSink) Close() error                                     { return nil }

// TestLargePageIsDamaged: if a page is too large to be held, and turns out to be damaged after some
// of its entities were committed, the position is moved back to before the page, in a snapshot as
// well. Nothing is delivered again until the page is repaired.
func TestLargePageIsDamaged(t *testing.T) {
	store := memory.New()
	publish(t, store, 0, 7)
	index, err := snapshots.Write(t.Context(), store, "s", func(yield func(*feed.Entity, error) bool) {
		for i := range 3 {
			if !yield(&feed.Entity{ContentType: "text/plain", ContentLocation: fmt.Sprint(i), Body: []byte("state"), LastModified: time.Now()}, nil) {
				return
			}
		}
	}, snapshots.Config{SpoolDir: t.TempDir()})
	check(t, err)
	for key, begin := range map[string]func(*fromstore.Source) consumer.Start{
		layout.FeedPage("f", 2):               func(*fromstore.Source) consumer.Start { return consumer.Beginning() },
		layout.SnapshotPage("s", index.ID, 0): func(s *fromstore.Source) consumer.Start { return consumer.FromSnapshot(s.Snapshot("s")) },
	} {
		damaged := &damagedStore{store, key, nil, new(reads)}
		client, source := newClient(t, damaged, consumer.Config{MaxHeld: 1, ReadAhead: 64})
		sink := new(countingSink)
		job := consumer.Job{Client: client, URL: source.Feed("f"), Sink: sink, From: begin(source), BatchEntities: 1}
		stats, err := job.Run(t.Context())
		if !errors.Is(err, chain.ErrCorrupt) || stats.Entities == 0 {
			t.Fatalf("%s: %+v, %v", key, stats, err)
		}
		if at := sink.at.Snapshot; strings.HasPrefix(key, "snapshots/") && (at == nil || at.Page != 0 || at.Entities != 0) {
			t.Errorf("%s: the position is %+v", key, sink.at)
		} else if strings.HasPrefix(key, "feeds/") && (sink.at.ContentID != "<2>" || sink.at.Page != name+"/feeds/f/pages/1") {
			t.Errorf("%s: the position is %+v", key, sink.at)
		}
		if sink.at.Damaged == "" {
			t.Errorf("%s: the position does not say that the page is damaged: %+v", key, sink.at)
		}
		given, at := sink.entities, sink.at
		for range 10 {
			if stats, err := job.Run(t.Context()); !errors.Is(err, chain.ErrCorrupt) || stats.Batches > 0 {
				t.Fatalf("%s, still damaged: %+v, %v", key, stats, err)
			}
		}
		if sink.entities != given || !reflect.DeepEqual(sink.at, at) {
			t.Errorf("%s: %d more entities, the position is %+v", key, sink.entities-given, sink.at)
		}
		damaged.key = ""
		if stats, err := job.Run(t.Context()); err != nil || stats.Entities < 4 || sink.at.Damaged != "" || sink.at.ContentID != "<6>" {
			t.Errorf("%s, repaired: %+v, %v, the position is %+v", key, stats, err, sink.at)
		}
	}
}

// A failingOnce is a store that once returns a body that breaks off.
type failingOnce struct {
	storage.Store
	failed *bool
}

func (s failingOnce) Get(ctx context.Context, key string, offset, length int64) (*storage.Object, error) {
	object, err := s.Store.Get(ctx, key, offset, length)
	if err == nil && !*s.failed {
		*s.failed = true
		object.Body = io.NopCloser(io.MultiReader(io.LimitReader(object.Body, object.Size/2), iotest.ErrReader(errors.New("connection lost"))))
	}
	return object, err
}

// TestBodyBreaksOff: a page whose body breaks off is read again.
func TestBodyBreaksOff(t *testing.T) {
	store := memory.New()
	publish(t, store, 0, 5)
	failed := false
	client, source := newClient(t, failingOnce{store, &failed}, consumer.Config{Retry: consumer.RetryConfig{Min: time.Millisecond}})
	if all, _ := seen(t, client.Entities(t.Context(), source.Feed("f"), consumer.Beginning())); len(all) != 5 || !failed {
		t.Errorf("%d entities, failed: %t", len(all), failed)
	}
}
