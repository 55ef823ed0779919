package kinto

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/internal/backoff"
	"github.com/feedctl/feedctl/internal/kintotest"
	"github.com/feedctl/feedctl/internal/memnet"
)

// A followed has a collection of a fake server in fake time, and a bridge that follows the
// collection.
type followed struct {
	*rig
	fake *kintotest.Fake
	net  *memnet.Net
	idle atomic.Int64 // calls of Config.Idle
}

// follow makes a collection, calls fill to fill it, and runs a test with a bridge that follows the collection.
func follow(t *testing.T, fill func(f *followed), test func(f *followed)) {
	synctest.Test(t, func(t *testing.T) {
		f := newFollowed(t)
		f.configure = func(c *Config) {
			c.Follow = true
			c.Idle = func() { f.idle.Add(1) }
		}
		fill(f)
		b := f.open(f.store)
		b.core.Sleep = backoff.Sleep
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			_, err := b.Run(ctx)
			ended <- errors.Join(err, b.Close())
		}()
		time.Sleep(time.Second)
		test(f)
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// newFollowed returns an empty collection, whose bridges do not follow.
func newFollowed(t *testing.T) *followed {
	fake := kintotest.NewHandler()
	f := &followed{rig: newRigOf(t, "http://kinto/v1/buckets/b/collections/c"), fake: fake, net: memnet.New(t, fake)}
	f.client.HTTP = f.net.Client()
	f.do(http.MethodPut, "http://kinto/v1/buckets/b", "")
	f.do(http.MethodPut, f.url, "")
	return f
}

func (f *followed) do(method, url, body string) {
	f.t.Helper()
	q, err := http.NewRequestWithContext(f.t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	q.SetBasicAuth(kintotest.User, kintotest.Password)
	q.Header.Set("Content-Type", "application/json")
	resp, err := f.net.Client().Do(q)
	if err != nil {
		f.t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		f.t.Fatalf("%s %s: %s", method, url, resp.Status)
	}
}

// has checks that the live records in the feed are those with the given ids.
func (f *followed) has(ids string) {
	f.t.Helper()
	var got []string
	live := f.fold()
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		if _, ok := live[id]; ok {
			got = append(got, id)
		}
	}
	if strings.Join(got, " ") != ids {
		f.t.Errorf("the feed has %q, want %q", got, ids)
	}
}

// TestLateCommit: a long transaction stores a record with a stamp that is lower than what was
// read. The record is in the feed a window and a poll later.
func TestLateCommit(t *testing.T) {
	for _, lasts := range []time.Duration{time.Second, 15 * time.Second, 59 * time.Second} {
		var commit func()
		follow(t, func(f *followed) {
			f.do(http.MethodPut, f.url+"/records/a", `{"data":{"n":1}}`)
		}, func(f *followed) {
			time.Sleep(10 * time.Minute) // it is quiet
			commit = f.fake.LateCommit(f.url, "b", `{"late":true}`)
			time.Sleep(time.Millisecond)
			f.do(http.MethodPut, f.url+"/records/c", `{"data":{"n":2}}`)
			time.Sleep(lasts)
			commit()
			time.Sleep(time.Minute + 10*time.Second + time.Second)
			f.has("a b c")
		})
	}
}

// TestQuiet: a collection without changes costs one conditional request per interval.
func TestQuiet(t *testing.T) {
	follow(t, func(f *followed) {
		f.do(http.MethodPut, f.url+"/records/a", `{"data":{"n":1}}`)
	}, func(f *followed) {
		time.Sleep(5 * time.Minute)
		f.net.Requests()
		f.idle.Store(0)
		time.Sleep(10 * time.Minute)
		if got := len(f.net.Requests()); got < 55 || got > 61 || f.idle.Load() < 55 {
			f.t.Errorf("in 10 min the bridge made %d requests, and was idle %d times", got, f.idle.Load())
		}
		f.do(http.MethodDelete, f.url+"/records/a", "")
		f.do(http.MethodPut, f.url+"/records/b", `{"data":{"n":1}}`)
		time.Sleep(11 * time.Second)
		f.has("b")
	})
}

// TestBackoff: the bridge sends no requests for as long as the server asks.
func TestBackoff(t *testing.T) {
	follow(t, func(*followed) {}, func(f *followed) {
		time.Sleep(5 * time.Minute)
		f.fake.Inject(1, func(*http.Request) bool { return true }, kintotest.WithHeader("Backoff", "120"))
		time.Sleep(10 * time.Second)
		f.net.Requests()
		time.Sleep(100 * time.Second)
		if got := f.net.Requests(); len(got) > 0 {
			f.t.Errorf("requests during the backoff: %q", got)
		}
		time.Sleep(30 * time.Second)
		if got := f.net.Requests(); len(got) == 0 {
			f.t.Error("no requests after the backoff")
		}
	})
}

// TestPeriod: a record with a past stamp, which leaves no sign, is found in the next period.
func TestPeriod(t *testing.T) {
	follow(t, func(f *followed) {
		f.do(http.MethodPut, f.url+"/records/a", `{"data":{"n":1}}`)
		f.do(http.MethodPut, f.url+"/records/b", `{"data":{"n":1}}`)
	}, func(f *followed) {
		time.Sleep(time.Hour)
		f.do(http.MethodDelete, f.url+"/records/a?last_modified=1000", "")
		f.fake.Purge(f.url)
		f.do(http.MethodPut, f.url+"/records/c", `{"data":{"last_modified":1000}}`)
		time.Sleep(25 * time.Hour)
		f.has("b c")
	})
}

// TestLowerForAMoment: a replica that lags behind for less than a window is no reason to compare
// everything, but a restored server is.
func TestLowerForAMoment(t *testing.T) {
	follow(t, func(f *followed) {
		f.do(http.MethodPut, f.url+"/records/a", `{"data":{"n":1}}`)
	}, func(f *followed) {
		time.Sleep(5 * time.Minute)
		restore := f.fake.Snapshot(f.url)
		f.do(http.MethodPut, f.url+"/records/b", `{"data":{"n":1}}`)
		time.Sleep(5 * time.Minute)
		now := f.fake.Snapshot(f.url)
		restore()
		time.Sleep(30 * time.Second)
		f.has("a b")
		now()
		time.Sleep(5 * time.Minute)
		f.has("a b")
		restore()
		time.Sleep(80 * time.Second)
		f.has("a")
	})
}

// TestOutage: the bridge outlasts an outage.
func TestOutage(t *testing.T) {
	follow(t, func(*followed) {}, func(f *followed) {
		f.do(http.MethodPut, f.url+"/records/a", `{"data":{"n":1}}`)
		f.fake.Inject(100, func(*http.Request) bool { return true }, kintotest.Refuse(503, 201, "please retry later", "Retry-After", "30"))
		time.Sleep(6 * time.Hour)
		f.has("a")
	})
}
