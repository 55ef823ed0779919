package feedstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/feedstore"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/fault"
	"github.com/feedctl/feedctl/storage/memory"
)

const (
	latency = 50 * time.Millisecond
	enough  = 32 << 20 // memory, in bytes, for all pages that a reader reads ahead
)

// roundTrips returns how many round trips, of one latency each, fit in the time since start.
func roundTrips(start time.Time) int { return int(time.Since(start) / latency) }

// far64 returns a store with a feed that has 64 pages of 64 KiB, and one more page at its end.
func far64(t *testing.T) *farStore {
	store := far(memory.New(), 0)
	fill(t, store, 64, 64<<10)
	store.reset()
	store.latency = latency
	return store
}

// TestReadAhead: a reader that goes from page to page waits for one round trip per 24 pages, and requests
// each page once.
func TestReadAhead(t *testing.T) {
	for name, limits := range map[string]struct {
		memory     int64
		roundTrips int
	}{
		"enough memory":       {enough, 1 + 64/24 + 1}, // nothing is read ahead at the first page
		"memory for 8 pages":  {9 * 128 << 10, 5 + 64/8},
		"no memory for pages": {0, 64},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := far64(t)
				r := newReader(t, store, feedstore.Config{ReadAhead: limits.memory})
				r.newest(t)
				store.reset()
				start := time.Now()
				r.pages(t, 1, 64)
				if n := roundTrips(start); n > limits.roundTrips {
					t.Errorf("64 pages took %d round trips, want at most %d", n, limits.roundTrips)
				}
				if key, n := store.most("Get"); n != 1 {
					t.Errorf("%s was requested %d times", key, n)
				}
				if all, gets := store.total(); gets != 64 || all > gets+5 { // the others read the floor, at most every 3/4 of a second
					t.Errorf("64 pages took %d requests, %d of them for pages", all, gets)
				}
			})
		})
	}
}

// TestCrawlAhead: a reader of metadata waits for one round trip per 16 pages, whether it crawls back or lists
// all pages.
func TestCrawlAhead(t *testing.T) {
	for name, walk := range map[string]func(*testing.T, reader){
		"back": func(t *testing.T, r reader) {
			f, newest, floor, err := r.Look(t.Context(), "f")
			check(t, err)
			for n := newest.Number - 1; n >= floor; n-- {
				f.Crawl(n, floor)
				if p, err := f.Stat(t.Context(), n); err != nil || p.Number != n {
					t.Fatalf("page %d: %v, %v", n, p, err)
				}
			}
		},
		"all": func(t *testing.T, r reader) {
			f, newest, floor, err := r.Look(t.Context(), "f")
			check(t, err)
			n := floor
			for p, err := range f.Pages(t.Context(), floor, newest) {
				if err != nil || p.Number != n {
					t.Fatalf("page %d: %v, %v", n, p, err)
				}
				n++
			}
			if n != newest.Number+1 {
				t.Errorf("the last page is %d, want %d", n-1, newest.Number)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := far64(t)
				r := newReader(t, store, feedstore.Config{ReadAhead: enough})
				r.newest(t)
				start := time.Now()
				walk(t, r)
				if n := roundTrips(start); n > 2+64/16+1 {
					t.Errorf("64 pages took %d round trips", n)
				}
				if key, n := store.most("Stat"); n > 1 && strings.Contains(key, "/pages/") && !strings.HasSuffix(key, "65") {
					t.Errorf("%s was requested %d times", key, n)
				}
			})
		})
	}
}

// TestManyAtOnePage: requests for the same page share one request to the store.
func TestManyAtOnePage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := far64(t)
		r := newReader(t, store, feedstore.Config{ReadAhead: enough})
		r.newest(t)
		for _, tt := range []struct {
			page        int64
			stats, gets uint64
		}{
			{7, 1, 1},     // the Stat reads the floor, which is a second old
			{0, 1 + 2, 0}, // the floor, a poll for the first request, and one for all others; the page is in memory
		} {
			time.Sleep(time.Second)
			store.reset()
			together(100, func(int) {
				if _, err := r.read(t.Context(), tt.page); err != nil {
					t.Error(err)
				}
			})
			if sent := store.Requests(); sent["Stat"] != tt.stats || sent["Get"] != tt.gets {
				t.Errorf("100 requests for page %d took %v, want %d Stat and %d Get", tt.page, sent, tt.stats, tt.gets)
			}
		}
	})
}

// together calls do n times concurrently.
func together(n int, do func(i int)) {
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { do(i) })
	}
	group.Wait()
}

// TestManyAtTheStart: the first requests to a Reader also share the search for the end of the feed.
func TestManyAtTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := far64(t)
		newReader(t, store, feedstore.Config{ReadAhead: enough}).newest(t)
		alone, _ := store.total()
		store.reset()
		many := newReader(t, store, feedstore.Config{ReadAhead: enough})
		together(100, func(int) { many.newest(t) })
		if all, _ := store.total(); all > alone+3 {
			t.Errorf("100 readers at the start sent %d requests, one sends %d", all, alone)
		}
	})
}

// TestNewestPageCosts: to read the newest page takes a poll and, if the page has changed, a request for its body.
func TestNewestPageCosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := far(memory.New(), latency)
		publish(t, store.Store, 3, 1, 5, short) // page 2 has 2 entities, and room for another
		r := newReader(t, store, feedstore.Config{ReadAhead: enough})
		r.newest(t)
		for _, tt := range []struct {
			what        string
			before      func()
			trips       int
			stats, gets uint64
		}{
			{"unchanged", nil, 1, 1, 0},
			{"unchanged for a while", func() { time.Sleep(time.Minute) }, 1, 2, 0}, // the floor is read at the same time
			{"grown and full", func() { publish(t, store.Store, 3, 6, 1, short) }, 5, 5, 1},
			{"followed by another", func() { publish(t, store.Store, 3, 7, 1, short) }, 3, 3, 1},
			{"grown", func() { publish(t, store.Store, 3, 8, 1, short) }, 2, 1, 1},
		} {
			if tt.before != nil {
				tt.before()
			}
			store.reset()
			start := time.Now()
			r.newest(t)
			sent := store.Requests()
			if n := roundTrips(start); n > tt.trips || sent["Stat"] > tt.stats || sent["Get"] > tt.gets || sent["List"] > 0 {
				t.Errorf("%s: %d round trips and %v, want %d, %d and %d", tt.what, n, sent, tt.trips, tt.stats, tt.gets)
			}
		}
	})
}

// TestMemoryIsBounded: readers of different pages share the memory, and no reader waits for memory.
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
				fill(t, store, 4*readers, 50<<10)
				store.latency = latency
				r := newReader(t, store, feedstore.Config{ReadAhead: limit})
				r.newest(t)
				peak, start, done := int64(0), time.Now(), make(chan struct{})
				go func() {
					defer close(done)
					together(readers, func(i int) {
						for n := 4*i + 1; n <= 4*i+4; n++ {
							body, err := r.open(t.Context(), int64(n))
							if err != nil {
								t.Error(err)
								return
							}
							take(body)
							body.Close()
						}
					})
				}()
				for running := true; running; {
					peak = max(peak, r.Stats().Memory)
					select {
					case <-done:
						running = false
					case <-time.After(23 * time.Millisecond):
					}
				}
				if peak > limit || peak < limit/2 {
					t.Errorf("pages took up to %d bytes of memory, want at most %d, and at least half of that", peak, limit)
				}
				if took := time.Since(start); name == "slow" && took > 45*time.Second {
					t.Errorf("slow readers took %v, want at most 45 s", took)
				}
			})
		})
	}
}

// TestErrorsWhileReadingAhead: an error of the store is returned to the callers that wait for the page, but
// not to later callers.
func TestErrorsWhileReadingAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := memory.New()
		var failing atomic.Bool
		failing.Store(true)
		fill(t, inner, 10, 1000)
		store := far(fault.Wrap(struct{ storage.Store }{inner}, func(op fault.Op) fault.Outcome {
			if failing.Load() && op.Verb == fault.Get && strings.HasSuffix(op.Key, "5") {
				return fault.Lost
			}
			return fault.Pass
		}), latency)
		r := newReader(t, store, feedstore.Config{ReadAhead: enough})
		r.pages(t, 1, 4)
		if _, err := r.read(t.Context(), 5); err == nil {
			t.Error("a page that cannot be read is returned")
		}
		failing.Store(false)
		r.pages(t, 5, 10)
	})
}

// An answeringLate is a store that waits between reading and returning.
type answeringLate struct{ storage.Store }

func (s answeringLate) Stat(ctx context.Context, key string) (storage.Info, error) {
	info, err := s.Store.Stat(ctx, key)
	time.Sleep(latency)
	return info, err
}

// TestPollsSeeEarlierWrites: a caller shares only a poll that begins after its call, so that it
// sees each write that returned before.
func TestPollsSeeEarlierWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := memory.New()
		publish(t, inner, 100, 0, 1, short)
		r := newReader(t, far(answeringLate{inner}, 0), feedstore.Config{ReadAhead: enough})
		r.newest(t)
		time.Sleep(time.Second)
		var group sync.WaitGroup
		for n := 1; n < 50; n++ {
			publish(t, inner, 100, n, 1, short)
			group.Go(func() {
				if got := r.newest(t); !strings.Contains(got, fmt.Sprintf("<%d>", n)) {
					t.Errorf("entity %d was published before the call, but was not read", n)
				}
			})
			time.Sleep(latency / 7)
		}
		group.Wait()
	})
}

// TestCancelledWhileReadingAhead: readers that give up leave no goroutines behind.
func TestCancelledWhileReadingAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReader(t, far64(t), feedstore.Config{ReadAhead: enough})
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		for n := int64(1); n < 60; n++ {
			group.Go(func() {
				time.Sleep(time.Duration(n) * time.Millisecond)
				if _, err := r.read(ctx, n); err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
		}
		time.Sleep(70 * time.Millisecond)
		cancel()
		group.Wait()
		time.Sleep(time.Second)
		for n := int64(1); n < 60; n++ { // pages that were being read when their readers gave up can be read
			r.pages(t, n, n)
		}
	})
}

// TestCloseWhileReadingAhead: Close leaves no goroutines behind, and calls that are under way complete.
func TestCloseWhileReadingAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // synctest.Test fails if goroutines are left
		r := newReader(t, far64(t), feedstore.Config{ReadAhead: enough, MaxWaiters: 1, PollInterval: time.Minute})
		r.pages(t, 1, 2) // 16 more pages are being read
		time.Sleep(latency / 2)
		start := time.Now()
		read, waited := make(chan error), make(chan error)
		go func() {
			_, err := r.read(t.Context(), 40)
			read <- err
		}()
		f, newest, _, err := r.Look(t.Context(), "f")
		check(t, err)
		go func() {
			_, _, err := f.Wait(t.Context(), newest, time.Hour)
			waited <- err
		}()
		synctest.Wait()
		r.Close(t.Context())
		check(t, <-read)
		check(t, <-waited)
		if took := time.Since(start); took > 4*latency {
			t.Errorf("closing took %v", took)
		}
		r.pages(t, 1, 3) // the store is still open
		r.newest(t)
	})
}

// TestPollingBacksOff: the longer a feed does not change, the less often it is polled, but at least every
// PollInterval.
func TestPollingBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := far(memory.New(), 0)
		publish(t, store, 3, 1, 1, short)
		r := newReader(t, store, feedstore.Config{MaxWaiters: 1, PollInterval: 8 * time.Second})
		f, known, _, err := r.Look(t.Context(), "f")
		check(t, err)
		store.reset()
		start, done := time.Now(), make(chan struct{})
		go func() {
			defer close(done)
			newest, granted, err := f.Wait(t.Context(), known, time.Minute)
			if took := time.Since(start); err != nil || !granted || newest.Entities != 2 || took != 23*time.Second {
				t.Errorf("after %v: %+v, %v, %v", took, newest, granted, err)
			}
		}()
		for _, want := range []uint64{1, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4, 4, 5} {
			synctest.Wait()
			if all, _ := store.total(); all != want {
				t.Errorf("after %v the store was polled %d times, want %d", time.Since(start), all, want)
			}
			time.Sleep(time.Second)
		}
		time.Sleep(500 * time.Millisecond)
		publish(t, store.Store, 3, 2, 1, short)
		<-done
	})
}

// TestLoaded: bodies in the memory of the driver are used in place, and closed when they make room
// for others.
func TestLoaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := memory.New()
		const size, room = 64 << 10, 10
		fill(t, inner, 64, size-1000)
		store := &loading{Store: inner}
		r := newReader(t, far(store, latency), feedstore.Config{ReadAhead: room * size})
		r.newest(t)
		for range 2 {
			r.pages(t, 1, 64)
			synctest.Wait()
			if n := store.open.Load(); n < 1 || n > room {
				t.Errorf("%d bodies are open, want at most %d", n, room)
			}
		}
	})
}

// A loading is a store that returns bodies that are in memory, and counts those that are open.
type loading struct {
	storage.Store
	open atomic.Int64
}

func (s *loading) Get(ctx context.Context, key string, offset, length int64) (*storage.Object, error) {
	o, err := s.Store.Get(ctx, key, offset, length)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(o.Body)
	s.open.Add(1)
	o.Body = &countedBody{loadedBody{io.NopCloser(bytes.NewReader(data)), data}, s}
	return o, err
}

type countedBody struct {
	loadedBody
	store *loading
}

// Close overwrites the memory of the body, as its next use would.
func (b *countedBody) Close() error {
	clear(b.data)
	b.store.open.Add(-1)
	return nil
}
