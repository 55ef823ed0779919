package feedstore_test

import (
	"context"
	"errors"
	"iter"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feedstore"
	"github.com/feedctl/feedctl/internal/backoff"
	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/internal/s3test"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
	"github.com/feedctl/feedctl/storage/stores"
)

// TestChangesOfFeed: each change is reported: a feed is created, grows, is deleted, or is damaged.
func TestChangesOfFeed(t *testing.T) {
	for name, store := range map[string]storage.Store{
		"the store notifies": memory.New(),
		"it does not":        struct{ storage.Store }{memory.New()},
		"far":                far(memory.New(), time.Millisecond),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newReader(t, store, feedstore.Config{MaxWaiters: 1})
				token := ""
				next := func() string { // next returns the version after the next change
					t.Helper()
					for range 10 {
						c, err := r.Changes(t.Context(), token, "", 10, time.Minute)
						check(t, err)
						if token = c.Token; len(c.Feeds) == 1 && c.Feeds[0].Name == "f" {
							return c.Feeds[0].Version
						} else if len(c.Feeds) > 0 {
							t.Fatalf("changes of %v", c.Feeds)
						}
					}
					t.Fatal("no change was noticed")
					return ""
				}
				publish(t, store, 2, 0, 1, short)
				seen := map[string]bool{next(): true}
				for n := 1; n < 4; n++ { // the page grows, and then another page follows it
					publish(t, store, 2, n, 1, short)
					version := next()
					if seen[version] || version == "" {
						t.Errorf("after entity %d, the version is %q", n, version)
					}
					seen[version] = true
				}
				_, err := producer.Delete(t.Context(), store, "f", false)
				check(t, err)
				if version := next(); version != "" {
					t.Errorf("after the feed was deleted, the version is %q", version)
				}
				publish(t, store, 2, 4, 1, short)
				if version := next(); seen[version] || version == "" {
					t.Errorf("after the feed was deleted and published to, the version is %q", version)
				}
				c, err := r.Changes(t.Context(), "", "", 10, 0)
				check(t, err)
				if len(c.Feeds) != 1 || !c.Complete || c.Token != token || c.Waited {
					t.Errorf("all changes: %+v", c)
				}

				for entry, err := range store.List(t.Context(), layout.FeedPages("f"), "") { // damage it
					check(t, err)
					info, err := store.Stat(t.Context(), entry.Key)
					check(t, err)
					_, err = store.Replace(t.Context(), entry.Key, info.Version, storage.Meta{}, storage.Bytes())
					check(t, err)
				}
				if version := next(); seen[version] || version == "" {
					t.Errorf("after the feed was damaged, the version is %q", version)
				}
			})
		})
	}
}

// TestChangesOfStores: changes that another process makes in a real store are noticed.
func TestChangesOfStores(t *testing.T) {
	for name, url := range map[string]func(t *testing.T) string{
		"file":       func(t *testing.T) string { return "file:" + filepath.ToSlash(t.TempDir()) },
		"postgresql": func(t *testing.T) string { return pgtest.Start(t).URL("changes") },
		"s3":         func(t *testing.T) string { return s3test.Start(t).URL("changes") },
	} {
		t.Run(name, func(t *testing.T) {
			url := url(t)
			open := func() storage.Store {
				store, err := stores.Open(t.Context(), url, stores.Options{Create: true})
				check(t, err)
				t.Cleanup(func() { check(t, store.Close()) })
				return store
			}
			store, other := open(), open()
			r := newReader(t, store, feedstore.Config{MaxWaiters: 1})
			token := ""
			next := func() (version string) {
				for {
					c, err := r.Changes(t.Context(), token, "", 10, time.Minute)
					check(t, err)
					token = c.Token
					for _, feed := range c.Feeds {
						return feed.Version
					}
				}
			}
			versions := map[string]bool{"": true}
			for n := range 3 {
				publish(t, other, 2, n, 1, short)
				if version := next(); versions[version] {
					t.Errorf("after %d entities, the version is %q again", n+1, version)
				} else {
					versions[version] = true
				}
			}
			_, err := producer.Delete(t.Context(), other, "f", false)
			check(t, err)
			if version := next(); version != "" {
				t.Errorf("after the feed was deleted, the version is %q", version)
			}
		})
	}
}

// A lockedStore refuses to read one feed.
type lockedStore struct {
	storage.Store
	feed   string
	hangs  bool // reading the feed hangs instead of failing
	locked atomic.Bool
}

func (s *lockedStore) Stat(ctx context.Context, key string) (storage.Info, error) {
	if s.locked.Load() && strings.HasPrefix(key, layout.FeedPages(s.feed)) {
		if s.hangs {
			<-ctx.Done()
		}
		return storage.Info{}, storage.ErrPermission
	}
	return s.Store.Stat(ctx, key)
}

// TestChangesOfLocked: a feed that cannot be read does not delay the others for long, and has a new version
// once it can be read.
func TestChangesOfLocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &lockedStore{Store: memory.New(), feed: "f"}
		publish(t, store, 2, 0, 1, short)
		store.locked.Store(true)
		r := newReader(t, store, feedstore.Config{MaxWaiters: 1})
		c, err := r.Changes(t.Context(), "", "", 10, time.Minute)
		check(t, err)
		if len(c.Feeds) != 1 || !c.Complete || c.Feeds[0].Version == "" {
			t.Errorf("while the feed cannot be read: %+v", c)
		}
		version := c.Feeds[0].Version
		store.locked.Store(false)
		c, err = r.Changes(t.Context(), c.Token, "", 10, time.Minute)
		check(t, err)
		if len(c.Feeds) != 1 || c.Feeds[0].Version == version {
			t.Errorf("once the feed can be read, after version %q: %+v", version, c)
		}
	})
}

// TestChangesWhileOneHangs: a feed whose polls hang does not delay the changes of the others.
func TestChangesWhileOneHangs(t *testing.T) {
	for name, most := range map[string]time.Duration{"the store notifies": time.Second, "it does not": 3 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := memory.New()
				locked := &lockedStore{Store: all, feed: "a", hangs: true}
				var store storage.Store = locked
				if name == "the store notifies" {
					store = struct {
						storage.Store
						storage.KeyWatcher
					}{locked, all}
				}
				publishTo(t, store, "a", 2, 0, 1, short)
				locked.locked.Store(true)
				publish(t, store, 2, 0, 1, short)
				r := newReader(t, store, feedstore.Config{MaxWaiters: 1})
				token := ""
				for n := 1; n < 100; n++ {
					changed := time.Now()
					c, err := r.Changes(t.Context(), token, "f", 10, time.Minute)
					check(t, err)
					if len(c.Feeds) == 0 { // the call only returned because the list became complete
						c, err = r.Changes(t.Context(), c.Token, "f", 10, time.Minute)
						check(t, err)
					}
					if took := time.Since(changed); len(c.Feeds) != 1 || took > most {
						t.Fatalf("change %d was noticed after %v, want at most %v: %+v", n, took, most, c)
					}
					token = c.Token
					publish(t, store, 2, n, 1, short)
				}
			})
		})
	}
}

// A hintingStore reports every second that any object may have changed, and counts listings.
type hintingStore struct {
	*farStore
	lists atomic.Int64
}

func (s *hintingStore) List(ctx context.Context, prefix, after string) iter.Seq2[storage.Entry, error] {
	s.lists.Add(1)
	return s.farStore.List(ctx, prefix, after)
}

func (s *hintingStore) Watch(context.Context, string) (<-chan struct{}, error) {
	return nil, errors.New("not needed")
}

func (s *hintingStore) WatchKeys(ctx context.Context, _ string, changed func(key string)) error {
	go func() {
		for backoff.Sleep(ctx, time.Second) == nil {
			changed("")
		}
	}()
	return nil
}

// TestChangesOfHinting: frequent hints that any feed may have changed do not each cause a listing.
func TestChangesOfHinting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &hintingStore{farStore: far(memory.New(), time.Millisecond)}
		publish(t, store, 2, 0, 1, short)
		r := newReader(t, store, feedstore.Config{MaxWaiters: 1})
		c, err := r.Changes(t.Context(), "", "", 10, time.Minute)
		check(t, err)
		time.Sleep(time.Minute)
		store.lists.Store(0)
		store.reset()
		for range 2 {
			c, err = r.Changes(t.Context(), c.Token, "", 10, 5*time.Minute)
			check(t, err)
		}
		if lists, all := store.lists.Load(), store.Requests()["Stat"]; lists > 150 || all > 150 {
			t.Errorf("feeds were listed %d times in ten minutes, with %d requests", lists, all)
		}
		publish(t, store.Store, 2, 1, 1, short)
		published := time.Now()
		c, err = r.Changes(t.Context(), c.Token, "", 10, time.Minute)
		check(t, err)
		if took := time.Since(published); len(c.Feeds) != 1 || took > 12*time.Second {
			t.Errorf("after %v: %+v", took, c)
		}
	})
}

// TestChangesOfEmpty: a caller does not wait for feeds when it is known that there are none.
func TestChangesOfEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReader(t, memory.New(), feedstore.Config{MaxWaiters: 1})
		began := time.Now()
		c, err := r.Changes(t.Context(), "", "", 10, time.Minute)
		check(t, err)
		if took := time.Since(began); !c.Complete || took > time.Second {
			t.Errorf("after %v: %+v", took, c)
		}
		began = time.Now()
		c, err = r.Changes(t.Context(), c.Token, "", 10, time.Minute)
		check(t, err)
		if took := time.Since(began); !c.Complete || took != time.Minute {
			t.Errorf("with a complete list, after %v: %+v", took, c)
		}
	})
}

// TestChangesAfterFailure: a feed that could not be polled after a hint is polled again soon.
func TestChangesAfterFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := memory.New()
		locked := &lockedStore{Store: all, feed: "f"}
		publish(t, all, 2, 0, 1, short)
		r := newReader(t, struct {
			storage.Store
			storage.KeyWatcher
		}{locked, all}, feedstore.Config{MaxWaiters: 1})
		c, err := r.Changes(t.Context(), "", "", 10, time.Minute)
		check(t, err)
		time.Sleep(time.Minute) // by now, the feed is polled rarely
		locked.locked.Store(true)
		published := time.Now()
		publish(t, all, 2, 1, 1, short)
		time.Sleep(time.Second / 2)
		locked.locked.Store(false)
		c, err = r.Changes(t.Context(), c.Token, "", 10, time.Minute)
		check(t, err)
		if took := time.Since(published); len(c.Feeds) != 1 || took > 3*time.Second {
			t.Errorf("after %v: %+v", took, c)
		}
	})
}

// TestChangesOfDeleted: a feed that was deleted is reported as gone, even if its pages have not been
// removed yet and a request has read it before.
func TestChangesOfDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		publish(t, store, 2, 0, 1, short)
		r := newReader(t, store, feedstore.Config{MaxWaiters: 1})
		c, err := r.Changes(t.Context(), "", "", 10, time.Minute)
		check(t, err)
		_, _, _, err = r.Look(t.Context(), "f")
		check(t, err)
		_, err = chain.Delete(t.Context(), store, "f")
		check(t, err)
		c, err = r.Changes(t.Context(), c.Token, "", 10, time.Minute)
		check(t, err)
		if len(c.Feeds) != 1 || c.Feeds[0] != (feedstore.FeedVersion{Name: "f"}) {
			t.Errorf("changes after the deletion: %v", c.Feeds)
		}
	})
}

// TestChangesOfTombstones: if more feeds are deleted than can be remembered, earlier tokens are too old.
func TestChangesOfTombstones(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		publish(t, store, 2, 0, 1, short)
		r := newReader(t, store, feedstore.Config{MaxWaiters: 1})
		first, err := r.Changes(t.Context(), "", "", 10, time.Minute)
		check(t, err)
		waited := make(chan error, 1)
		go func() {
			_, err := r.Changes(t.Context(), first.Token, "", 10, time.Minute)
			waited <- err
		}()
		synctest.Wait()
		for n := range feedstore.MaxTombstones + 1 {
			r.See(string(rune('a'+n%26))+time.Duration(n).String(), "1")
			r.See(string(rune('a'+n%26))+time.Duration(n).String(), "")
		}
		if err := <-waited; !errors.Is(err, feedstore.ErrToken) {
			t.Errorf("a caller that was waiting: %v", err)
		}
		if _, err := r.Changes(t.Context(), first.Token, "", 10, 0); !errors.Is(err, feedstore.ErrToken) {
			t.Errorf("changes since a token that is too old: %v", err)
		}
		c, err := r.Changes(t.Context(), "", "", 10, 0)
		check(t, err)
		if len(c.Feeds) != 1 || c.Feeds[0].Name != "f" {
			t.Errorf("changes after starting over: %v", c.Feeds)
		}
	})
}
