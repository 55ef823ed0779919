package feedstore_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feedstore"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

// TestCorruptBodies: damaged bodies are neither returned nor cached, whether or not the driver has them in
// memory.
func TestCorruptBodies(t *testing.T) {
	t.Run("read", func(t *testing.T) { testCorruptBodies(t, false) })
	t.Run("loaded", func(t *testing.T) { testCorruptBodies(t, true) })
}

func testCorruptBodies(t *testing.T, loaded bool) {
	synctest.Test(t, func(t *testing.T) {
		for _, page := range []int64{0, 1} {
			inner, times := memory.New(), 1
			fill(t, inner, 2, 1000)
			cache := openCache(t, t.TempDir(), 8<<20)
			r := newReader(t, far(corrupting{inner, &times, loaded}, 0), feedstore.Config{ReadAhead: enough, Cache: cache})
			if _, err := r.read(t.Context(), page); !errors.Is(err, chain.ErrCorrupt) || times != 0 || r.Stats().Corrupt != 1 {
				t.Errorf("page %d: %v, %+v", page, err, r.Stats())
			}
			synctest.Wait()
			if n := cache.Stats().Pages; n != 0 {
				t.Errorf("page %d: %d pages were cached", page, n)
			}
			r.pages(t, 1, 2)
			times = 1
			alone := newReader(t, far(corrupting{inner, &times, loaded}, 0), feedstore.Config{ReadAhead: enough})
			_, _ = alone.read(t.Context(), page)
			alone.pages(t, 1, 2)
		}
	})
}

// A corrupting is a store that changes a byte in each of the next bodies.
type corrupting struct {
	storage.Store
	times  *int
	loaded bool // the bodies implement storage.Loaded
}

func (s corrupting) Get(ctx context.Context, key string, offset, length int64) (*storage.Object, error) {
	o, err := s.Store.Get(ctx, key, offset, length)
	if err != nil || *s.times == 0 && !s.loaded {
		return o, err
	}
	data, err := io.ReadAll(o.Body)
	if *s.times > 0 {
		*s.times--
		data[len(data)/2] ^= 1
	}
	o.Body = io.NopCloser(bytes.NewReader(data))
	if s.loaded {
		o.Body = loadedBody{o.Body, data}
	}
	return o, err
}

// A loadedBody implements [storage.Loaded].
type loadedBody struct {
	io.ReadCloser
	data []byte
}

func (b loadedBody) Bytes() []byte             { return b.data }
func (b loadedBody) SHA256() [sha256.Size]byte { return sha256.Sum256(b.data) }

// TestLargePages: pages that are too large for the memory are streamed, and cached all the same.
func TestLargePages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := far(memory.New(), 0)
		fill(t, store, 4, 300<<10)
		store.latency = latency
		cache := openCache(t, t.TempDir(), 8<<20)
		r := newReader(t, store, feedstore.Config{ReadAhead: 1 << 20, Cache: cache})
		r.pages(t, 1, 4)
		store.reset()
		r.pages(t, 1, 4)
		if all, gets := store.total(); gets != 0 || cache.Stats().Pages != 4 {
			t.Errorf("reading them again took %d requests, %d for pages: %+v", all, gets, cache.Stats())
		}
		cache.Drop("f", 2)
		body, err := r.open(t.Context(), 2)
		check(t, err)
		_, err = io.ReadFull(body, make([]byte, 1000))
		check(t, err)
		body.Close()
		synctest.Wait()
		if cache.Has("f", 2) {
			t.Error("a page that was not read to its end is cached")
		}
		r.pages(t, 1, 4)
	})
}

// TestCache: reading a cached page takes no request to the store. After a restart, a single request is enough to know
// that the cached pages belong to the feed.
func TestCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, dir := far64(t), t.TempDir()
		first := openCache(t, dir, 64<<20)
		r := newReader(t, store, feedstore.Config{ReadAhead: enough, Cache: first})
		r.newest(t)
		start := time.Now()
		r.pages(t, 1, 64)
		if n := roundTrips(start); n > 10 {
			t.Errorf("64 pages took %d round trips", n)
		}
		synctest.Wait()
		check(t, first.Close())
		r = newReader(t, store, feedstore.Config{ReadAhead: enough, Cache: openCache(t, dir, 64<<20)})
		r.newest(t)
		store.reset()
		for range 3 {
			r.pages(t, 1, 64)
		}
		if all, gets := store.total(); gets != 0 || all > 2 { // one for the feed, one for the floor
			t.Errorf("192 cached pages took %d requests, %d of them for pages", all, gets)
		}
		if s := r.Stats(); s.CacheHits != 192 || s.CacheMisses != 0 {
			t.Errorf("%+v", s)
		}
		// Parts and metadata come from the cache, too.
		store.reset()
		whole, err := r.read(t.Context(), 9)
		check(t, err)
		f, err := r.Feed("f")
		check(t, err)
		p, body, err := f.Open(t.Context(), 9, 5, 10)
		check(t, err)
		defer body.Close()
		part, err := io.ReadAll(body)
		check(t, err)
		known, err := f.Stat(t.Context(), 9)
		check(t, err)
		if all, _ := store.total(); string(part) != string(whole[5:15]) || known.Digest() != p.Digest() || all > 1 {
			t.Errorf("part %q, %d requests", part, all)
		}
	})
}

// TestCacheOfAnotherFeed: if a feed was deleted and begun again, or restored from a backup, its pages are not mixed
// with those of the earlier feed in the cache.
func TestCacheOfAnotherFeed(t *testing.T) {
	for _, kept := range []int{0, 3} { // how many pages the feeds have in common
		dir, store, other := t.TempDir(), far(memory.New(), 0), far(memory.New(), 0)
		fill(t, store, kept, 1000)
		for entry, err := range store.List(t.Context(), "feeds/", "") {
			check(t, err)
			o, err := store.Get(t.Context(), entry.Key, 0, -1)
			check(t, err)
			data, err := io.ReadAll(o.Body)
			check(t, err)
			if kept > 0 {
				_, err = other.Create(t.Context(), entry.Key, o.Meta, storage.Bytes(data))
			}
			check(t, err)
		}
		publish(t, store, 3, 100, 30, short)
		publish(t, other, 3, 200, 30, short)
		read := func(store storage.Store) (all string) {
			cache := openCache(t, dir, 64<<20)
			defer cache.Close()
			r := newReader(t, store, feedstore.Config{ReadAhead: enough, Cache: cache})
			_, newest, _, err := r.Look(t.Context(), "f")
			check(t, err)
			for n := newest.Number; n > 0; n-- {
				body, err := r.read(t.Context(), n)
				check(t, err)
				all += string(body)
			}
			return all
		}
		want := map[string]bool{}
		for range 2 {
			for name, s := range map[string]storage.Store{"<100>": store, "<200>": other} {
				got := read(s)
				want[name+got] = true
				if !strings.Contains(got, name) {
					t.Errorf("%d pages in common: the feed with %s was not read", kept, name)
				}
			}
		}
		if len(want) != 2 {
			t.Errorf("%d pages in common: two feeds read twice gave %d results, want 2", kept, len(want))
		}
	}
}

// TestCacheHeals: damaged files of the cache are not returned but replaced.
func TestCacheHeals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, store := t.TempDir(), far(memory.New(), 0)
		fill(t, store, 4, 1000)
		first := openCache(t, dir, 8<<20)
		newReader(t, store, feedstore.Config{ReadAhead: enough, Cache: first}).pages(t, 1, 4)
		synctest.Wait()
		check(t, first.Close())
		paths, err := filepath.Glob(filepath.Join(dir, "pages", "*"))
		check(t, err)
		for i, path := range paths {
			data, err := os.ReadFile(path)
			check(t, err)
			data[(i*len(data)/len(paths)+100)%len(data)] ^= 1
			check(t, os.WriteFile(path, data, 0o666))
		}
		cache := openCache(t, dir, 8<<20)
		r := newReader(t, store, feedstore.Config{ReadAhead: enough, Cache: cache})
		for range 2 {
			r.pages(t, 1, 4)
			synctest.Wait()
		}
		if s := cache.Stats(); len(paths) != 4 || s.Damaged != 4 || s.Added != 4 || s.Pages != 4 {
			t.Errorf("%d pages: %+v", len(paths), s)
		}
	})
}

// TestCacheForgetsPruned: the cache drops pages below the floor, including those that an earlier process cached.
func TestCacheForgetsPruned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		fill(t, store, 5, 1000)
		cache := openCache(t, t.TempDir(), 8<<20)
		old := newReader(t, far(store, 0), feedstore.Config{Cache: cache})
		old.pages(t, 1, 5)
		synctest.Wait()
		for floor, r := range map[int64]reader{3: old, 5: newReader(t, far(store, 0), feedstore.Config{Cache: cache})} {
			if _, err := chain.RaiseFloor(t.Context(), store, "f", floor); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second) // longer than a floor is used before it is read again
			r.newest(t)
			for n := range int64(5) {
				if cache.Has("f", n+1) && n+1 < floor {
					t.Errorf("floor %d: page %d is in the cache", floor, n+1)
				}
			}
		}
		if !cache.Has("f", 5) {
			t.Error("page 5 is not in the cache")
		}
	})
}
