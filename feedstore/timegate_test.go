package feedstore_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feedstore"
	"github.com/feedctl/feedctl/internal/longfeed"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/fault"
	"github.com/feedctl/feedctl/storage/memory"
)

var longest = flag.Int64("long-feed", 20_000, "search feeds of up to this many pages")

var dawn = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)

// rhythms holds functions that return the time of page n, in seconds.
var rhythms = map[string]func(n, pages int64) int64{
	"even":           func(n, _ int64) int64 { return n * 10 },
	"faster":         func(n, pages int64) int64 { return 1_000_000 - (pages-n)*(pages-n)*1_000_000/pages/pages },
	"slower":         func(n, pages int64) int64 { return n * n * 1_000_000 / pages / pages },
	"all at once":    func(int64, int64) int64 { return 7 },
	"steps":          func(n, _ int64) int64 { return n / 1000 * 1000 },
	"one long pause": func(n, pages int64) int64 { return n + n/(pages/2+1)*1_000_000_000 },
	"random":         func(n, _ int64) int64 { return n*100 + rand.New(rand.NewPCG(uint64(n), 1)).Int64N(100) },
}

// TestPageBefore searches feeds of many sizes for all kinds of times. The result must be the last
// page that is strictly older, and the number of reads, and of rounds of concurrent reads, must not
// exceed a limit.
func TestPageBefore(t *testing.T) {
	for name, rhythm := range rhythms {
		for _, pages := range []int64{1, 2, 3, 9, 100, 1023, *longest} {
			t.Run(fmt.Sprint(name, " ", pages), func(t *testing.T) {
				at := func(n int64) time.Time { return dawn.Add(time.Duration(rhythm(n, pages)) * time.Second) }
				store := longfeed.New(memory.New(), "f", pages, at)
				synctest.Test(t, func(t *testing.T) {
					for _, floor := range []int64{1, pages/2 + 1} {
						_, err := chain.RaiseFloor(t.Context(), store, "f", floor)
						check(t, err)
						for _, remote := range []bool{false, true} {
							searchAll(t, store, remote, floor, pages, at)
						}
					}
				})
			})
		}
	}
}

// searchAll searches for the times of some pages, and for a second before and after each.
func searchAll(t *testing.T, store storage.Store, remote bool, floor, pages int64, at func(n int64) time.Time) {
	t.Helper()
	slow := far(store, time.Second)
	searched := storage.Store(slow)
	if !remote {
		searched = struct{ storage.Store }{slow}
	}
	for _, n := range []int64{floor, floor + 1, (floor + pages) / 2, pages - 1, pages} {
		for _, shift := range []time.Duration{-time.Second, 0, time.Second} {
			reader := feedstore.NewLocal(searched, nil)
			measure := func(do func() error) (reads uint64, rounds int) {
				slow.reset()
				begun := time.Now()
				check(t, do())
				reads, _ = slow.total()
				return reads, int(time.Since(begun) / time.Second)
			}
			look := func() error {
				_, _, _, err := reader.Look(t.Context(), "f")
				return err
			}
			check(t, look()) // as a request for the entry point does
			first, firstRounds := measure(look)
			when := at(n).Add(shift)
			var got int64
			reads, rounds := measure(func() (err error) {
				got, err = reader.PageBefore(t.Context(), "f", when)
				return err
			})
			if want := strictlyOlder(floor, pages, at, when); got != want {
				t.Fatalf("page of %v: got %d (%v), want %d (%v)", when, got, at(got), want, at(want))
			}
			reads, rounds = reads-first, rounds-firstRounds // without the reads that Look makes
			if most := 1 + bits.Len64(uint64(pages-1)); !remote && int(reads) > most || remote && rounds > 1+8 {
				t.Errorf("page of %v: %d reads in %d rounds", when, reads, rounds)
			}
			reader.Close(t.Context())
		}
	}
}

// strictlyOlder returns the page that the rule of the specification selects.
func strictlyOlder(floor, pages int64, at func(n int64) time.Time, t time.Time) int64 {
	for n := pages; n > floor; n-- {
		if at(n).Before(t) {
			return n
		}
	}
	return floor
}

// TestPageBeforeRounds: if a feed grows steadily, a search of a remote store takes few rounds, and
// another search for a time close to the first reads less, since pages that have been read are
// remembered.
func TestPageBeforeRounds(t *testing.T) {
	at := func(n int64) time.Time { return dawn.Add(time.Duration(rhythms["random"](n, 0)) * time.Second) }
	store := far(longfeed.New(memory.New(), "f", *longest, at), time.Second)
	synctest.Test(t, func(t *testing.T) {
		for _, n := range []int64{2, *longest / 3, *longest - 1} {
			reader := feedstore.NewLocal(store, nil)
			_, _, _, err := reader.Look(t.Context(), "f")
			check(t, err)
			for _, most := range []uint64{40, 20} {
				store.reset()
				begun := time.Now()
				_, err = reader.PageBefore(t.Context(), "f", at(n))
				check(t, err)
				reads, _ := store.total()
				rounds := time.Since(begun) / time.Second
				t.Logf("page %d of %d: %d reads in %d rounds, one of them for the newest page", n, *longest, reads, rounds)
				if rounds > 8 || reads > most {
					t.Errorf("page %d: %d reads in %d rounds", n, reads, rounds)
				}
			}
			reader.Close(t.Context())
		}
	})
}

// TestPageBeforeOfChangingFeed: a search finds the right page even if the feed is pruned, or an
// orphan appears, before any one of its operations.
func TestPageBeforeOfChangingFeed(t *testing.T) {
	const pages = 100
	at := func(n int64) time.Time { return dawn.Add(time.Duration(n) * time.Minute) }
	for name, change := range map[string]func(ctx context.Context, store storage.Store) error{
		"pruned before":     func(ctx context.Context, store storage.Store) error { return raise(ctx, store, 20) },
		"pruned to it":      func(ctx context.Context, store storage.Store) error { return raise(ctx, store, 50) },
		"pruned beyond it":  func(ctx context.Context, store storage.Store) error { return raise(ctx, store, 90) },
		"an orphan appears": orphan,
	} {
		for _, remote := range []bool{false, true} {
			for nth := int64(1); nth <= 12; nth++ {
				inner := longfeed.New(memory.New(), "f", pages, at)
				var operations atomic.Int64
				store := fault.Wrap(inner, func(fault.Op) fault.Outcome {
					if operations.Add(1) == nth {
						if err := change(context.Background(), inner); err != nil {
							t.Error(err)
						}
					}
					return fault.Pass
				})
				if remote {
					store = far(store, 0)
				}
				reader := feedstore.NewLocal(store, nil)
				n, err := reader.PageBefore(t.Context(), "f", at(50))
				check(t, err)
				floor, err := chain.NewReader(inner, "f").Floor(t.Context())
				check(t, err)
				// The result may also be a page that was pruned after the search had read it: the
				// client then gets a 410.
				if n != max(floor, 49) && n != 49 {
					t.Errorf("%s, before operation %d, remote %t: page %d with floor %d", name, nth, remote, n, floor)
				}
				reader.Close(t.Context())
			}
		}
	}
}

// TestPageBeforeOfDeletedFeed deletes a feed, and publishes to it again, before each operation of
// the search.
func TestPageBeforeOfDeletedFeed(t *testing.T) {
	for nth := int64(1); nth <= 12; nth++ {
		inner := memory.New()
		fill(t, inner, 20, 10)
		var operations atomic.Int64
		store := fault.Wrap(inner, func(fault.Op) fault.Outcome {
			if operations.Add(1) == nth {
				_, err := chain.Delete(context.Background(), inner, "f")
				check(t, err)
			}
			return fault.Pass
		})
		reader := feedstore.NewLocal(store, nil)
		if n, err := reader.PageBefore(t.Context(), "f", dawn); !errors.Is(err, chain.ErrDeleted) && (err != nil || n != 1) {
			t.Errorf("deleted before operation %d: page %d, %v", nth, n, err)
		}
		fill(t, inner, 20, 10)
		floor, err := chain.NewReader(inner, "f").Floor(t.Context())
		check(t, err)
		if n, err := reader.PageBefore(t.Context(), "f", dawn); err != nil || n < floor && operations.Load() >= nth {
			t.Errorf("deleted before operation %d and published to: page %d, floor %d, %v", nth, n, floor, err)
		}
		reader.Close(t.Context())
	}
}

func raise(ctx context.Context, store storage.Store, floor int64) error {
	_, err := chain.RaiseFloor(ctx, store, "f", floor)
	return err
}

// orphan creates a page two numbers beyond the end, with an early time.
func orphan(ctx context.Context, store storage.Store) error {
	p := &chain.Page{Feed: "f", Number: 102, Boundary: "b", Entities: 1, First: dawn, Last: dawn, SHA256: "00", Prev: "00", Closed: true}
	meta, err := p.Meta()
	if err != nil {
		return err
	}
	_, err = store.Create(ctx, "feeds/f/pages/000000000102", meta, storage.Bytes([]byte("x")))
	return err
}
