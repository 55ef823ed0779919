package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/fault"
	"github.com/feedctl/feedctl/storage/memory"
)

const latency = 50 * time.Millisecond

// roundTrips is how often latency went by since start.
func roundTrips(start time.Time) int { return int(time.Since(start) / latency) }

// readPages reads pages one after the other and checks what is in them.
func (s *site) readPages(t *testing.T, name string, from, to int64) {
	t.Helper()
	for n := from; n <= to; n++ {
		got := s.get(t, layout.FeedPagePath(name, n))
		if got.StatusCode != http.StatusOK || got.Header.Get("Repr-Digest") != reprDigest(got.body) || !bytes.Contains(got.body, fmt.Appendf(nil, "<%d>", n-1)) {
			t.Fatalf("page %d: %s with %d bytes and %v", n, got.Status, len(got.body), got.Header)
		}
	}
}

// far64 is a feed of 64 pages of 64 KiB that have a next page, and one more.
func far64(t *testing.T) *farStore {
	store := far(memory.New(), 0)
	fill(t, store, "f", 64, 64<<10)
	store.reset()
	store.latency = latency
	return store
}

// A reader that goes from page to page waits for one round trip in 16 pages, and
// each page is asked for once.
func TestReadAhead(t *testing.T) {
	for name, limits := range map[string]struct {
		readAhead  int64
		roundTrips int
	}{
		"as it is":            {0, 2 + 3 + 64/16}, // where the feed ends is looked for at first
		"memory for 8 pages":  {9 * 128 << 10, 5 + 64/8},
		"no memory for pages": {-1, 5 + 64},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := far64(t)
				c := inside(t, newServer(t, store, server.Config{ReadAhead: limits.readAhead}))
				c.get(t, "/feeds/f")
				store.reset()
				start := time.Now()
				c.readPages(t, "f", 1, 64)
				if n := roundTrips(start); n > limits.roundTrips {
					t.Errorf("64 pages took %d round trips, want at most %d", n, limits.roundTrips)
				}
				if key, n := store.most("Get"); n != 1 {
					t.Errorf("%s was asked for %d times", key, n)
				}
				if all, gets := store.total(); gets != 64 || all > gets+4 { // the floor, once a second
					t.Errorf("64 pages took %d requests, %d of them for pages", all, gets)
				}
			})
		})
	}
}

// A consumer that crawls back for its position waits for one round trip in 16 pages.
func TestCrawlAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := far64(t)
		c := inside(t, newServer(t, store, server.Config{}))
		c.get(t, "/feeds/f")
		start := time.Now()
		for n := int64(64); n >= 1; n-- {
			got := c.do(t, http.MethodHead, layout.FeedPagePath("f", n), "")
			if links := strings.Join(got.Header["Link"], " "); got.StatusCode != 200 || strings.Contains(links, "prev") != (n > 1) {
				t.Fatalf("page %d: %s, %s", n, got.Status, links)
			}
		}
		if n := roundTrips(start); n > 2+64/16+1 {
			t.Errorf("64 pages took %d round trips", n)
		}
		if key, n := store.most("Stat"); n > 1 && strings.Contains(key, "/pages/") && !strings.HasSuffix(key, "65") {
			t.Errorf("%s was asked for %d times", key, n)
		}
	})
}

// However many ask for a page, the store is asked once.
func TestManyAtOnePage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := far64(t)
		c := inside(t, newServer(t, store, server.Config{}))
		c.get(t, "/feeds/f")
		for _, tt := range []struct {
			path        string
			stats, gets uint64
		}{
			{layout.FeedPagePath("f", 7), 1, 1}, // the floor, which is a second old
			{"/feeds/f", 1 + 2, 0},              // one look for the first, one for all others; the page is known
		} {
			time.Sleep(time.Second)
			store.reset()
			var group sync.WaitGroup
			for range 100 {
				group.Go(func() {
					if got := c.get(t, tt.path); got.StatusCode != 200 || got.Header.Get("Repr-Digest") != reprDigest(got.body) {
						t.Errorf("GET %s: %s", tt.path, got.Status)
					}
				})
			}
			group.Wait()
			if sent := store.Requests(); sent["Stat"] != tt.stats || sent["Get"] != tt.gets {
				t.Errorf("100 times GET %s asked the store %v, want %d and %d", tt.path, sent, tt.stats, tt.gets)
			}
		}
	})
}

// Also a server that has just started asks once.
func TestManyAtTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := far64(t)
		one := inside(t, newServer(t, store, server.Config{}))
		one.get(t, "/feeds/f")
		alone, _ := store.total()
		store.reset()
		many := inside(t, newServer(t, store, server.Config{}))
		var group sync.WaitGroup
		for range 100 {
			group.Go(func() { many.get(t, "/feeds/f") })
		}
		group.Wait()
		if all, _ := store.total(); all > alone+3 {
			t.Errorf("100 requests at the start cost %d requests, one costs %d", all, alone)
		}
	})
}

// What the newest page costs: a look, and its body when that has changed.
func TestNewestPageCosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := far(memory.New(), latency)
		publishPages(t, store.Store, "f", 3, 1, 5, short) // page 2 has 2 of 3 entities
		c := inside(t, newServer(t, store, server.Config{}))
		c.get(t, "/feeds/f")
		for _, tt := range []struct {
			what        string
			before      func()
			fields      []string
			trips       int
			stats, gets uint64
		}{
			{"unchanged", nil, nil, 1, 1, 0},
			{"unchanged, and known to the client", nil, []string{etag(t, c, "/feeds/f")}, 1, 1, 0},
			{"unchanged for a while", func() { time.Sleep(time.Minute) }, nil, 1, 2, 0}, // the floor at the same time
			{"grown and full", func() { publishPages(t, store.Store, "f", 3, 6, 1, short) }, nil, 5, 5, 1},
			{"followed by another", func() { publishPages(t, store.Store, "f", 3, 7, 1, short) }, nil, 3, 3, 1},
			{"grown", func() { publishPages(t, store.Store, "f", 3, 8, 1, short) }, nil, 2, 1, 1},
		} {
			if tt.before != nil {
				tt.before()
			}
			store.reset()
			start := time.Now()
			c.get(t, "/feeds/f", tt.fields...)
			sent := store.Requests()
			if n := roundTrips(start); n > tt.trips || sent["Stat"] > tt.stats || sent["Get"] > tt.gets || sent["List"] > 0 {
				t.Errorf("%s: %d round trips and %v, want %d, %d and %d", tt.what, n, sent, tt.trips, tt.stats, tt.gets)
			}
		}
	})
}

var memoryMetric = regexp.MustCompile(`(?m)^feedctl_page_memory_bytes (\S+)$`)

// Readers at many places share the memory, and none of them waits for it.
func TestMemoryIsBounded(t *testing.T) {
	const limit, readers = 2 << 20, 50
	for name, take := range map[string]func(io.Reader){
		"fast": func(r io.Reader) { _, _ = io.Copy(io.Discard, r) },
		"slow": func(r io.Reader) {
			for _, err := io.CopyN(io.Discard, r, 15<<10); err == nil; _, err = io.CopyN(io.Discard, r, 15<<10) {
				time.Sleep(time.Second)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := far(memory.New(), 0)
				fill(t, store, "f", 4*readers, 50<<10)
				store.latency = latency
				c := inside(t, newServer(t, store, server.Config{ReadAhead: limit}))
				c.get(t, "/feeds/f")
				var group sync.WaitGroup
				for reader := range readers {
					group.Go(func() {
						for n := 4*reader + 1; n <= 4*reader+4; n++ {
							response, err := c.client.Get(c.url + layout.FeedPagePath("f", int64(n)))
							if err != nil {
								t.Error(err)
								return
							}
							take(response.Body)
							response.Body.Close()
						}
					})
				}
				done := make(chan struct{})
				go func() { group.Wait(); close(done) }()
				peak, start := 0.0, time.Now()
				for running := true; running; {
					m := memoryMetric.FindSubmatch(c.get(t, "/metrics").body)
					if m == nil {
						t.Fatal("there is no metric of the memory")
					}
					taken, err := strconv.ParseFloat(string(m[1]), 64)
					check(t, err)
					peak = max(peak, taken)
					select {
					case <-done:
						running = false
					case <-time.After(23 * time.Millisecond):
					}
				}
				if peak > limit || peak < limit/2 {
					t.Errorf("pages took up to %.0f bytes of memory, the limit is %d", peak, limit)
				}
				if took := time.Since(start); name == "slow" && took > 45*time.Second {
					t.Errorf("slow readers took %v", took)
				}
			})
		})
	}
}

// Wrong bytes from the store are not handed out, and do not come into the cache.
func TestCorruptBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, path := range []string{"/feeds/f", "/feeds/f/pages/1"} {
			inner, times := memory.New(), 1
			fill(t, inner, "f", 2, 1000)
			cache := openCache(t, t.TempDir(), 8<<20)
			c := inside(t, newServer(t, far(corrupting{inner, &times}, 0), server.Config{Cache: cache}))
			if got := c.get(t, path); got.StatusCode != http.StatusInternalServerError || times != 0 {
				t.Errorf("%s: %s", path, got.Status)
			}
			synctest.Wait()
			if n := cache.Stats().Pages; n != 0 {
				t.Errorf("%s: %d pages came into the cache", path, n)
			}
			c.readPages(t, "f", 1, 2)
			times = 1
			alone := inside(t, newServer(t, far(corrupting{inner, &times}, 0), server.Config{}))
			alone.get(t, path)
			alone.readPages(t, "f", 1, 2)
		}
	})
}

type corrupting struct {
	storage.Store
	times *int
}

func (s corrupting) Get(ctx context.Context, key string, offset, length int64) (*storage.Object, error) {
	o, err := s.Store.Get(ctx, key, offset, length)
	if err != nil || *s.times == 0 {
		return o, err
	}
	*s.times--
	data, err := io.ReadAll(o.Body)
	data[len(data)/2] ^= 1
	o.Body = io.NopCloser(bytes.NewReader(data))
	return o, err
}

// Errors of the store are told to those who asked, and to nobody after them.
func TestErrorsWhileReadingAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, failing := memory.New(), true
		fill(t, inner, "f", 10, 1000)
		store := far(fault.Wrap(struct{ storage.Store }{inner}, func(op fault.Op) fault.Outcome {
			if failing && op.Verb == fault.Get && strings.HasSuffix(op.Key, "5") {
				return fault.Lost
			}
			return fault.Pass
		}), latency)
		c := inside(t, newServer(t, store, server.Config{}))
		c.readPages(t, "f", 1, 4)
		if got := c.get(t, "/feeds/f/pages/5"); got.StatusCode != http.StatusInternalServerError {
			t.Errorf("got %s", got.Status)
		}
		failing = false
		c.readPages(t, "f", 5, 10)
	})
}

// Pages too large for the memory stream, and come into the cache all the same.
func TestLargePages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := far(memory.New(), 0)
		fill(t, store, "f", 4, 300<<10)
		store.latency = latency
		cache := openCache(t, t.TempDir(), 8<<20)
		c := inside(t, newServer(t, store, server.Config{ReadAhead: 1 << 20, Cache: cache}))
		c.readPages(t, "f", 1, 4)
		store.reset()
		c.readPages(t, "f", 1, 4)
		if all, gets := store.total(); gets != 0 || cache.Stats().Pages != 4 {
			t.Errorf("read again with %d requests, %d for pages: %+v", all, gets, cache.Stats())
		}
		// What was not read to its end is not kept.
		cache.Drop("f", 2)
		response, err := c.client.Get(c.url + "/feeds/f/pages/2")
		check(t, err)
		_, err = io.ReadFull(response.Body, make([]byte, 1000))
		check(t, err)
		response.Body.Close()
		synctest.Wait()
		if cache.Has("f", 2) {
			t.Error("half a page is in the cache")
		}
		c.readPages(t, "f", 1, 4)
	})
}

// A cached page costs the store nothing, also after a restart: one request proves
// that the cached pages are those of the feed.
func TestCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, dir := far64(t), t.TempDir()
		first := openCache(t, dir, 64<<20)
		c := inside(t, newServer(t, store, server.Config{Cache: first}))
		c.get(t, "/feeds/f")
		start := time.Now()
		c.readPages(t, "f", 1, 64)
		if n := roundTrips(start); n > 10 {
			t.Errorf("64 pages took %d round trips", n)
		}
		synctest.Wait()
		check(t, first.Close())
		again := inside(t, newServer(t, store, server.Config{Cache: openCache(t, dir, 64<<20)}))
		again.get(t, "/feeds/f")
		store.reset()
		for range 3 {
			again.readPages(t, "f", 1, 64)
		}
		if all, gets := store.total(); gets != 0 || all > 2 { // the other one is for the floor
			t.Errorf("192 cached pages cost %d requests, %d of them for pages", all, gets)
		}
		metrics := string(again.get(t, "/metrics").body)
		for _, line := range []string{"feedctl_page_cache_hits_total 192", "feedctl_page_cache_misses_total 0", "feedctl_page_cache_pages 64", `feedctl_store_requests_total{operation="Stat"} `} {
			if !strings.Contains(metrics, "\n"+line) {
				t.Errorf("metrics lack %s", line)
			}
		}
		// Parts and states come from the cache too.
		store.reset()
		got := again.get(t, "/feeds/f/pages/9", "Range: bytes=5-14")
		whole := again.get(t, "/feeds/f/pages/9")
		head := again.do(t, http.MethodHead, "/feeds/f/pages/9", "")
		if all, _ := store.total(); string(got.body) != string(whole.body[5:15]) || head.Header.Get("Etag") != whole.Header.Get("Etag") || all > 1 {
			t.Errorf("range %q, %d requests", got.body, all)
		}
	})
}

// A feed that was made anew, or came back from a backup, is not mixed with what is
// in the cache.
func TestCacheOfAnotherFeed(t *testing.T) {
	for _, kept := range []int{0, 3} { // pages that the feeds have in common
		dir, store, other := t.TempDir(), far(memory.New(), 0), far(memory.New(), 0)
		fill(t, store, "f", kept, 1000)
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
		publishPages(t, store, "f", 3, 100, 30, short)
		time.Sleep(2 * time.Millisecond)
		publishPages(t, other, "f", 3, 200, 30, short)
		first := openCache(t, dir, 64<<20)
		read := func(store storage.Store) (all string) {
			cache := openCache(t, dir, 64<<20)
			defer cache.Close()
			c := inside(t, newServer(t, store, server.Config{Cache: cache}))
			newest, err := chain.NewReader(store, "f").Newest(t.Context())
			check(t, err)
			for n := newest.Number; n > 0; n-- {
				got := c.get(t, layout.FeedPagePath("f", n))
				if got.StatusCode != 200 || got.Header.Get("Repr-Digest") != reprDigest(got.body) {
					t.Errorf("page %d: %s", n, got.Status)
				}
				all += string(got.body)
			}
			return all
		}
		check(t, first.Close())
		want := map[string]bool{}
		for range 2 {
			for name, s := range map[string]storage.Store{"<100>": store, "<200>": other} {
				got := read(s)
				want[name+got] = true
				if !strings.Contains(got, name) {
					t.Errorf("%d in common: the feed with %s is not there", kept, name)
				}
			}
		}
		if len(want) != 2 {
			t.Errorf("%d in common: two feeds read twice gave %d results", kept, len(want))
		}
	}
}

// Damage on disk is never handed out, and is made good.
func TestCacheHeals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, store := t.TempDir(), far(memory.New(), 0)
		fill(t, store, "f", 4, 1000)
		first := openCache(t, dir, 8<<20)
		inside(t, newServer(t, store, server.Config{Cache: first})).readPages(t, "f", 1, 4)
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
		c := inside(t, newServer(t, store, server.Config{Cache: cache}))
		for range 2 {
			c.readPages(t, "f", 1, 4)
			synctest.Wait()
		}
		if s := cache.Stats(); len(paths) != 4 || s.Damaged != 4 || s.Added != 4 || s.Pages != 4 {
			t.Errorf("%d pages: %+v", len(paths), s)
		}
	})
}

// A server that closes in the middle of it leaves nothing behind, and what is being
// answered is answered.
func TestCloseWhileReadingAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // fails if goroutines are left
		store := far64(t)
		s, err := server.New(store, server.Config{})
		check(t, err)
		c := inside(t, s)
		c.readPages(t, "f", 1, 2) // 16 more are on their way
		time.Sleep(latency / 2)
		start := time.Now()
		answered := make(chan int)
		go func() { answered <- c.get(t, "/feeds/f/pages/40").StatusCode }()
		waiting := c.wait(t, "/feeds/f", "If-None-Match: *", "Prefer: wait=50")
		check(t, s.Close(context.Background()))
		if status := <-answered; status != 200 {
			t.Errorf("the request got %d", status)
		}
		<-waiting.done
		if took := time.Since(start); took > 3*latency {
			t.Errorf("closing took %v", took)
		}
		c.readPages(t, "f", 1, 3) // the store is still there
		if got := c.get(t, "/feeds/f"); got.StatusCode != 200 {
			t.Errorf("newest: %s", got.Status)
		}
	})
}

// Reading through a Transport that is given up leaves nothing behind.
func TestTransportIsGivenUpWhileReadingAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := far64(t)
		s := newServer(t, store, server.Config{})
		c := inside(t, s)
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		for n := int64(1); n < 60; n++ {
			group.Go(func() {
				time.Sleep(time.Duration(n) * time.Millisecond)
				r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+layout.FeedPagePath("f", n), nil)
				check(t, err)
				response, err := c.client.Do(r)
				if err == nil {
					_, err = io.CopyN(io.Discard, response.Body, 100)
					response.Body.Close()
				}
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
		}
		time.Sleep(70 * time.Millisecond)
		cancel()
		group.Wait()
		time.Sleep(time.Second)
		for n := int64(1); n < 60; n++ { // whatever was begun can be read
			c.readPages(t, "f", n, n)
		}
	})
}

// The longer nothing happens the more rarely the store is asked, but never more
// rarely than every PollInterval.
func TestPollingBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := far(memory.New(), 0)
		publishPages(t, store, "f", 3, 1, 1, short)
		c := inside(t, newServer(t, store, server.Config{PollInterval: 8 * time.Second}))
		tag := etag(t, c, "/feeds/f")
		store.reset()
		w := c.wait(t, "/feeds/f", tag, "Prefer: wait=60")
		for _, want := range []uint64{3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 5, 5, 5, 5, 6, 6} {
			time.Sleep(time.Second)
			synctest.Wait()
			if all, _ := store.total(); all != want {
				t.Errorf("the store was asked %d times, want %d", all, want)
			}
		}
		time.Sleep(500 * time.Millisecond)
		publishPages(t, store.Store, "f", 3, 2, 1, short)
		w.check(t, 200, 23*time.Second, "wait=60")
	})
}

// An answeringLate store takes its time after it has looked.
type answeringLate struct{ storage.Store }

func (s answeringLate) Stat(ctx context.Context, key string) (storage.Info, error) {
	info, err := s.Store.Stat(ctx, key)
	time.Sleep(latency)
	return info, err
}

// A look is shared by those only who asked before it began: whoever asks after a
// write has returned sees it.
func TestLooksSeeEarlierWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := memory.New()
		publishPages(t, inner, "f", 100, 0, 1, short)
		c := inside(t, newServer(t, far(answeringLate{inner}, 0), server.Config{}))
		c.get(t, "/feeds/f")
		time.Sleep(time.Second)
		var group sync.WaitGroup
		for n := 1; n < 50; n++ {
			publishPages(t, inner, "f", 100, n, 1, short)
			group.Go(func() {
				if got := c.get(t, "/feeds/f"); !strings.Contains(string(got.body), fmt.Sprintf("<%d>", n)) {
					t.Errorf("entity %d was published before it was asked for, and is not there", n)
				}
			})
			time.Sleep(latency / 7)
		}
		group.Wait()
	})
}
