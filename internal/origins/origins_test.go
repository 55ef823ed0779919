package origins

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// A limited server allows only a certain number of requests in each second.
type limited struct {
	perSecond int
	latency   time.Duration

	mu               sync.Mutex
	second           int64
	count            int
	allowed, refused int
}

func (l *limited) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(l.latency/2 + rand.N(l.latency))
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now().Unix(); now != l.second {
		l.second, l.count = now, 0
	}
	l.count++
	if l.count > l.perSecond {
		l.refused++
		return answer(http.StatusTooManyRequests, nil), nil
	}
	l.allowed++
	return answer(http.StatusOK, nil), nil
}

func answer(status int, header http.Header) *http.Response {
	return &http.Response{StatusCode: status, Status: fmt.Sprint(status, " ", http.StatusText(status)), Header: header, Body: io.NopCloser(strings.NewReader(""))}
}

// TestThrottled runs 200 jobs that send requests to a server, with or without pauses for work; the
// server allows only a certain number of requests in each second.
func TestThrottled(t *testing.T) {
	const short, long = time.Millisecond, 20 * time.Millisecond
	for _, test := range []struct {
		perSecond           int
		latency, work, time time.Duration
	}{
		{10, long, 0, 5 * time.Minute},
		{20, long, 0, 5 * time.Minute},
		{50, long, 0, 5 * time.Minute},
		{200, long, 0, 2 * time.Minute},
		{1000, long, 0, 2 * time.Minute},
		{1000, short, 0, 2 * time.Minute},
		{1000, short, 100 * time.Millisecond, 2 * time.Minute},
	} {
		t.Run(fmt.Sprintf("%d a second, latency %v, work %v", test.perSecond, test.latency, test.work), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := &limited{perSecond: test.perSecond, latency: test.latency}
				pool := New(Config{Transport: server, Patience: oneMinute, Works: func(string) {}, Wait: func(*Error) {}})
				ctx, stop := context.WithTimeout(t.Context(), test.time)
				defer stop()
				var all sync.WaitGroup
				for range 200 {
					all.Go(func() {
						run, end := context.WithCancelCause(ctx)
						client := pool.Client(run, end)
						for run.Err() == nil {
							_ = get(run, client, "http://server.test/")
							time.Sleep(rand.N(2*test.work + 1))
						}
						if ctx.Err() == nil {
							t.Errorf("a run was ended: %v", context.Cause(run))
						}
					})
				}
				all.Wait()
				rate := float64(server.allowed) / test.time.Seconds() / float64(test.perSecond)
				refused := float64(server.refused) / float64(server.allowed+server.refused)
				t.Logf("%.3f of what the server allows, %.3f of the requests refused", rate, refused)
				if rate < 0.8 || refused > 0.05 {
					t.Errorf("%.3f of what the server allows, want at least 0.8; %.3f of the requests refused, want at most 0.05", rate, refused)
				}
			})
		})
	}
}

// get sends a request, and returns its error, or an error for its status.
func get(ctx context.Context, c *Client, url string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := c.RoundTrip(r)
	if err != nil {
		return err
	}
	if response.StatusCode >= 400 {
		err = statusError(response)
	}
	return errors.Join(err, response.Body.Close())
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestAsked: servers ask their clients to wait, using each field and each status. All runs keep to a short wait; a
// long one ends the run, and applies only for a limited time.
func TestAsked(t *testing.T) {
	for _, c := range []struct {
		field  string
		status int
	}{{"Retry-After", 429}, {"Retry-After", 503}, {"Retry-After", 409}, {"Backoff", 200}, {"Backoff", 429}, {"Backoff", 503}} {
		for _, seconds := range []int{10, 300, math.MaxInt32} {
			t.Run(fmt.Sprint(c.status, " ", c.field, " ", seconds), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					asks := true
					var sharedWaits []time.Duration
					pool := New(Config{Patience: oneMinute, Works: func(string) {}, Transport: roundTripper(func(*http.Request) (*http.Response, error) {
						if !asks {
							return answer(http.StatusOK, nil), nil
						}
						asks = false
						return answer(c.status, http.Header{c.field: {fmt.Sprint(seconds)}}), nil
					}), Wait: func(e *Error) { sharedWaits = append(sharedWaits, e.RetryAfter) }})
					run, end := context.WithCancelCause(t.Context())
					client := pool.Client(run, end)
					wait := min(time.Duration(seconds)*time.Second, 5*time.Minute)
					if err := get(run, client, "http://server.test/"); (err != nil) != (c.status >= 400) {
						t.Fatal(err)
					}
					if len(sharedWaits) != 1 || sharedWaits[0] != wait {
						t.Errorf("other nodes are told to wait %v, want %v", sharedWaits, wait)
					}
					began := time.Now()
					other := pool.Client(run, end)
					err := get(run, other, "http://SERVER.test:80/other")
					if seconds > 25 {
						if e, ok := errors.AsType[*Error](context.Cause(run)); err == nil || !ok || !e.Throttled || e.RetryAfter != wait {
							t.Errorf("the run was not ended for the wait of %v: %v, %v", wait, err, context.Cause(run))
						}
						return
					}
					if took := time.Since(began); err != nil || took < wait || took > wait*5/4 {
						t.Errorf("the next request was sent after %v, want %v and a little more; error %v", took, wait, err)
					}
					if err := get(run, client, "http://server.test/"); err != nil || client.Failure() != nil {
						t.Errorf("after the wait: %v, %v", err, client.Failure())
					}
				})
			})
		}
	}
}

// TestAtOnce: a server holds 60 requests for half a minute. Another request has to wait for these
// only if they are not requests for news.
func TestAtOnce(t *testing.T) {
	const hold = 30 * time.Second
	for name, c := range map[string]struct {
		url    string
		header http.Header
		want   time.Duration
	}{
		"slow":                 {"http://server.test/slow?feed=normal", http.Header{"Prefer": {"respond-async"}}, hold},
		"prefer wait":          {"http://server.test/feed", http.Header{"Prefer": {"respond-async, Wait=30"}}, 0},
		"couchdb's continuous": {"http://server.test/db/_changes?feed=continuous&heartbeat=5000", nil, 0},
		"couchdb's longpoll":   {"http://server.test/db/_changes?feed=longpoll", nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pool := New(Config{Patience: oneMinute, Works: func(string) {}, Wait: func(*Error) {}, Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
					if r.URL.Path != "/woken" {
						time.Sleep(hold)
					}
					return answer(http.StatusOK, nil), nil
				})})
				run, end := context.WithCancelCause(t.Context())
				var all sync.WaitGroup
				for range 60 {
					all.Go(func() {
						r, err := http.NewRequestWithContext(run, http.MethodGet, c.url, nil)
						if err != nil {
							t.Error(err)
							return
						}
						r.Header = c.header.Clone()
						response, err := pool.Client(run, end).RoundTrip(r)
						if err == nil {
							err = response.Body.Close()
						}
						if err != nil {
							t.Error(err)
						}
					})
				}
				synctest.Wait()
				began := time.Now()
				if err := get(run, pool.Client(run, end), "http://server.test/woken"); err != nil {
					t.Error(err)
				}
				if took := time.Since(began); took != c.want {
					t.Errorf("another request was answered after %v, want %v", took, c.want)
				}
				all.Wait()
				if n := len(pool.origins["http://server.test:80"].requests); n != 0 {
					t.Errorf("%d requests count as waiting, although all were answered", n)
				}
			})
		})
	}
}

func oneMinute() time.Duration { return time.Minute }

// TestPatience: a run survives a server that refuses connections for a while, and is ended once the
// server has failed for a minute.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fails := true
		refused := errors.New("connection refused")
		pool := New(Config{Patience: oneMinute, Works: func(string) {}, Wait: func(*Error) {}, Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			switch {
			case r.URL.Host == "other.test":
				return answer(http.StatusNotFound, nil), nil
			case fails:
				return nil, refused
			}
			return answer(http.StatusOK, nil), nil
		})})
		run, end := context.WithCancelCause(t.Context())
		client := pool.Client(run, end)
		try := func(times int) {
			for range times {
				_ = get(run, client, "http://server.test/")
				_ = get(run, client, "http://other.test/")
				time.Sleep(10 * time.Second)
			}
		}
		try(5)
		if e := client.Failure(); e == nil || e.Origin != "http://server.test:80" || !errors.Is(e, refused) || run.Err() != nil {
			t.Fatalf("after 50 s: %v, run ended: %v", e, context.Cause(run))
		}
		fails = false
		try(1)
		if e := client.Failure(); e != nil {
			t.Fatalf("after a success: %v", e)
		}
		fails = true
		try(6)
		if run.Err() != nil {
			t.Fatalf("the run has ended after 50 s without success: %v", context.Cause(run))
		}
		try(1)
		if e, ok := errors.AsType[*Error](context.Cause(run)); !ok || e.Throttled || !errors.Is(e, refused) {
			t.Errorf("the run has not ended after a minute without success: %v", context.Cause(run))
		}
	})
}

// TestForgotten checks that nothing is kept about a server that is not in use.
func TestForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refuse := true
		pool := New(Config{Patience: oneMinute, Works: func(string) {}, Wait: func(*Error) {}, Transport: roundTripper(func(*http.Request) (*http.Response, error) {
			if refuse {
				return answer(http.StatusTooManyRequests, nil), nil
			}
			return answer(http.StatusOK, nil), nil
		})})
		run, end := context.WithCancelCause(t.Context())
		client := pool.Client(run, end)
		for range 10 {
			_ = get(run, client, "http://throttled.test/")
		}
		if d := pool.Delays(); len(d) != 1 || d["http://throttled.test:80"] <= 0 {
			t.Errorf("delays after ten refusals are %v", d)
		}
		refuse = false
		time.Sleep(2 * time.Second)
		for n := range 1000 {
			if err := get(run, client, fmt.Sprint("http://server-", n, ".test/")); err != nil {
				t.Fatal(err)
			}
		}
		if err := get(run, client, "http://throttled.test/"); err != nil {
			t.Fatal(err)
		}
		if err := get(run, client, "http://last.test/"); err != nil {
			t.Fatal(err)
		}
		if n := len(pool.origins); n > 2 {
			t.Errorf("%d origins are kept, none is in use", n)
		}
	})
}

// TestLocal: a request that fails on this machine says nothing about the server.
func TestLocal(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		want bool
	}{
		{&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, true},
		{&net.OpError{Op: "dial", Err: os.NewSyscallError("socket", syscall.EMFILE)}, false},
		{fmt.Errorf("write: %w", &fs.PathError{Op: "read", Path: "/spool", Err: syscall.EIO}), false},
	} {
		pool := New(Config{Patience: oneMinute, Works: func(string) {}, Transport: roundTripper(func(*http.Request) (*http.Response, error) { return nil, test.err })})
		client := pool.Client(t.Context(), func(error) {})
		if err := get(t.Context(), client, "http://server.test/"); !errors.Is(err, test.err) {
			t.Error(err)
		}
		if e := client.Failure(); (e != nil) != test.want {
			t.Errorf("%v: the server is blamed: %v, want %v", test.err, e != nil, test.want)
		}
	}
}
