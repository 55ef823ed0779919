package kinto

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/feedctl/feedctl/internal/kintotest"
)

// onCompare calls a function whenever the bridge begins to compare all records, and returns how many
// times it did.
func (f *followed) onCompare(call func(n int64)) (compared *atomic.Int64) {
	compared = new(atomic.Int64)
	inner := f.net.Client().Transport
	f.client.HTTP = &http.Client{Transport: roundTrip(func(q *http.Request) (*http.Response, error) {
		if query := q.URL.Query(); query.Has("_fields") && !query.Has("_token") && !query.Has("deleted") {
			call(compared.Add(1))
		}
		return inner.RoundTrip(q)
	})}
	return compared
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(q *http.Request) (*http.Response, error) { return f(q) }

// TestQuarantineOfBusy: a record in quarantine makes the collection have more records than the feed,
// which is a reason to compare all records once, even if other records change meanwhile.
func TestQuarantineOfBusy(t *testing.T) {
	var compared *atomic.Int64
	follow(t, func(f *followed) {
		f.do(http.MethodPut, f.url+"/records/large", `{"data":{"text":"`+strings.Repeat("x", 1000)+`"}}`)
		compared = f.onCompare(func(n int64) {
			if n > 20 {
				return
			}
			f.do(http.MethodPut, f.url+"/records/a", fmt.Sprintf(`{"data":{"n":%d}}`, n))
		})
		inner := f.configure
		f.configure = func(c *Config) { inner(c); c.MaxRecord = 500 }
	}, func(f *followed) {
		time.Sleep(time.Hour)
		f.has("a")
		if n := compared.Load(); n != 1 {
			t.Errorf("all records were compared %d times", n)
		}
		for range 10 { // each is counted
			f.do(http.MethodPut, f.url+"/records/b", `{"data":{}}`)
			time.Sleep(10 * time.Minute)
		}
		f.has("a b")
		if n := compared.Load(); n != 1 {
			t.Errorf("after changes, all records were compared %d times", n)
		}
		f.do(http.MethodPut, f.url+"/records/c", `{"data":{"last_modified":1000}}`) // the count is the only sign of it
		f.do(http.MethodPut, f.url+"/records/b", `{"data":{"n":2}}`)
		time.Sleep(10 * time.Minute)
		f.has("a b c")
	})
}

// TestFollowFuture: a collection with a stamp in the future, which the server does not accept as a bound,
// is compared once a day, and when it has changed, but at most once per interval. In between it is idle.
func TestFollowFuture(t *testing.T) {
	var compared *atomic.Int64
	var busy atomic.Bool
	follow(t, func(f *followed) {
		f.do(http.MethodPut, f.url+"/records/a", fmt.Sprintf(`{"data":{"last_modified":%d}}`, time.Now().AddDate(1, 0, 0).UnixMilli()))
		compared = f.onCompare(func(n int64) {
			if busy.Load() && n < 20 {
				f.do(http.MethodPut, f.url+"/records/b", fmt.Sprintf(`{"data":{"n":%d}}`, n))
			}
		})
	}, func(f *followed) {
		busy.Store(true)
		f.do(http.MethodPut, f.url+"/records/b", `{"data":{}}`)
		time.Sleep(time.Minute)
		if n := compared.Load(); n == 0 || n > 8 {
			t.Errorf("a collection that changes all the time was compared %d times in a minute", n)
		}
		f.has("a b")
		busy.Store(false)
		time.Sleep(time.Minute)
		f.idle.Store(0)
		compared.Store(0)
		time.Sleep(10 * time.Minute)
		if f.idle.Load() < 55 || compared.Load() > 0 {
			t.Errorf("in 10 min without changes: idle %d times, compared %d times", f.idle.Load(), compared.Load())
		}
		time.Sleep(24 * time.Hour)
		if compared.Load() != 1 {
			t.Errorf("in a day without changes: compared %d times, want 1", compared.Load())
		}
	})
}

// TestGoneByHead: the response to HEAD does not say what is missing, so the bridge asks again.
func TestGoneByHead(t *testing.T) {
	for name, test := range map[string]struct {
		configure func(*Config)
		remove    func(r *rig) // before the run
		nth       int          // HEAD before which the collection is deleted; 0: the collection is gone already
	}{
		"first":  {func(c *Config) { c.NewestFirst = true }, func(*rig) {}, 1},
		"future": {func(*Config) {}, func(r *rig) { r.put("future", `"last_modified":9999999999999`); r.run() }, 1},
		"count":  {func(*Config) {}, func(r *rig) { r.run(); r.put("r0", `"n":1`) }, 1},
		"before": {func(c *Config) { c.ReconcileNow = true }, func(r *rig) { r.run() }, 1},
		"after":  {func(c *Config) { c.ReconcileNow = true }, func(r *rig) { r.run() }, 2},
	} {
		for _, onGone := range []OnGone{Stop, Delete} {
			t.Run(name+" "+string(onGone), func(t *testing.T) {
				fake := kintotest.NewFake(t)
				r := newRigOf(t, fake.NewCollection(t))
				r.fill(0, 3)
				test.remove(r)
				r.configure = func(c *Config) { c.OnGone = onGone; test.configure(c) }
				heads := 0
				r.client.HTTP = &http.Client{Transport: roundTrip(func(q *http.Request) (*http.Response, error) {
					if q.Method == http.MethodHead {
						if heads++; heads == test.nth {
							r.removeCollection()
						}
					}
					return http.DefaultTransport.RoundTrip(q)
				})}
				_, err := r.tryRun(r.store)
				if stops := onGone == Stop || name == "first"; errors.Is(err, ErrGone) != stops || !stops && err != nil {
					t.Errorf("error is %v", err)
				}
				if got := len(r.fold()); onGone == Delete && got > 0 {
					t.Errorf("the feed has %d records", got)
				}
			})
		}
	}
}
