package couchdb_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/internal/memnet"
)

// inWorld runs a test in fake time, with a server behind http://couch.test.
func inWorld(t *testing.T, handler http.HandlerFunc, test func(t *testing.T, n *memnet.Net)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, memnet.New(t, handler)) })
}

func open(t *testing.T, n *memnet.Net, c couchdb.Config) *couchdb.DB {
	t.Helper()
	if c.URL == "" {
		c.URL = "http://couch.test/db"
	}
	c.HTTP = n.Client()
	db, err := couchdb.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

const info = `{"db_name":"db","update_seq":"5-x","instance_start_time":"17","cluster":{"q":2},"doc_count":3,"doc_del_count":1}`

// TestRepeat responds with errors a few times and measures the delays.
func TestRepeat(t *testing.T) {
	const least, sum = 250 * time.Millisecond, 31 * 250 * time.Millisecond // minimum and sum of the pauses of 6 attempts
	get := couchdb.Request{}
	post := couchdb.Request{Method: "POST", Path: "_x"}
	tests := []struct {
		name        string
		q           couchdb.Request
		status      int
		cut         bool   // the body
		header      string // Retry-After
		times       int
		least, most time.Duration // of all pauses
		requests    int
		fails       bool
	}{
		{name: "healthy", q: get, requests: 1},
		{name: "500", q: get, status: 500, times: 2, least: 3 * least / 2, most: time.Minute, requests: 3},
		{name: "503 for ever", q: get, status: 503, times: 99, least: sum / 2, most: 10 * time.Minute, requests: 6, fails: true},
		{name: "408", q: get, status: 408, times: 1, least: least / 2, most: least, requests: 2},
		{name: "425", q: get, status: 425, times: 1, least: least / 2, most: least, requests: 2},
		{name: "429 with seconds", q: get, status: 429, header: "7", times: 1, least: 7 * time.Second, most: 8 * time.Second, requests: 2},
		{name: "429 for too long", q: get, status: 429, header: "86400", times: 1, least: 5 * time.Minute, most: 5*time.Minute + time.Second, requests: 2},
		{name: "lost connection", q: get, status: -1, times: 3, least: 7 * least / 2, most: 7 * least, requests: 4},
		{name: "400", q: get, status: 400, times: 1, requests: 1, fails: true},
		{name: "409", q: get, status: 409, times: 1, requests: 1, fails: true},
		{name: "404 that is cut off", q: get, status: 404, cut: true, times: 1, least: least / 2, most: least, requests: 2},
		{name: "503 that is cut off", q: get, status: 503, cut: true, header: "7", times: 1, least: 7 * time.Second, most: 8 * time.Second, requests: 2},
		{name: "POST", q: post, requests: 1},
		{name: "POST, 500", q: post, status: 500, times: 1, requests: 1, fails: true},
		{name: "POST, lost", q: post, status: -1, times: 1, requests: 1, fails: true},
		{name: "POST, 429", q: post, status: 429, times: 1, most: 3 * time.Second, requests: 2},
		{name: "POST that may be repeated", q: couchdb.Request{Method: "POST", Repeat: true}, status: 500, times: 1, most: 3 * time.Second, requests: 2},
		{name: "only once", q: couchdb.Request{Once: true}, status: 503, times: 1, requests: 1, fails: true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			failed := 0
			inWorld(t, func(w http.ResponseWriter, r *http.Request) {
				if failed == test.times {
					_, _ = io.WriteString(w, "{}")
					return
				}
				failed++
				if test.status < 0 {
					panic(http.ErrAbortHandler)
				}
				w.Header().Set("Retry-After", test.header)
				w.WriteHeader(test.status)
				if test.cut {
					_ = http.NewResponseController(w).Flush()
					panic(http.ErrAbortHandler)
				}
				_, _ = io.WriteString(w, `{"error":"the code","reason":"the reason"}`)
			}, func(t *testing.T, n *memnet.Net) {
				begun := time.Now()
				err := open(t, n, couchdb.Config{}).JSON(t.Context(), test.q, nil)
				if took := time.Since(begun); took < test.least || took > test.most {
					t.Errorf("took %v, want %v to %v", took, test.least, test.most)
				}
				if (err != nil) != test.fails || len(n.Requests()) != test.requests {
					t.Errorf("error %v", err)
				}
				var e *couchdb.Error
				if test.fails && test.status > 0 && (!errors.As(err, &e) || e.Status != test.status || e.Code != "the code" || e.Reason != "the reason") {
					t.Errorf("error %v", err)
				}
			})
		})
	}
}

// TestTimeouts: a request is repeated if the server does not respond or stops in the middle of a
// response, but not if it is slow.
func TestTimeouts(t *testing.T) {
	slow := func(w http.ResponseWriter, pause time.Duration) {
		for _, b := range info {
			time.Sleep(pause)
			_, _ = w.Write([]byte{byte(b)})
			_ = http.NewResponseController(w).Flush()
		}
	}
	tests := []struct {
		name        string
		serve       func(w http.ResponseWriter, r *http.Request)
		least, most time.Duration
		requests    int
	}{
		{"no header", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, 10 * time.Second, 11 * time.Second, 2},
		{"hangs in the body", func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "{")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, 10 * time.Second, 11 * time.Second, 2},
		{"slow but alive", func(w http.ResponseWriter, _ *http.Request) { slow(w, 9*time.Second) }, time.Minute, time.Hour, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var asked atomic.Bool
			inWorld(t, func(w http.ResponseWriter, r *http.Request) {
				if !asked.Swap(true) {
					test.serve(w, r)
					return
				}
				_, _ = io.WriteString(w, info)
			}, func(t *testing.T, n *memnet.Net) {
				begun := time.Now()
				db := open(t, n, couchdb.Config{HeaderTimeout: 20 * time.Second, IdleTimeout: 10 * time.Second})
				i, err := db.Info(t.Context())
				if took := time.Since(begun); err != nil || i.Name != "db" || took < test.least || took > test.most {
					t.Errorf("took %v, want %v to %v; error %v", took, test.least, test.most, err)
				}
				if got := len(n.Requests()); got != test.requests {
					t.Errorf("%d requests", got)
				}
			})
		})
	}
}

// TestSlowCaller: a slow caller is not mistaken for a slow server.
func TestSlowCaller(t *testing.T) {
	const size = 1 << 20
	inWorld(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("x", size))
	}, func(t *testing.T, n *memnet.Net) {
		resp, err := open(t, n, couchdb.Config{}).Do(t.Context(), couchdb.Request{})
		must(t, err)
		defer resp.Body.Close()
		for range size / (64 << 10) {
			if _, err := io.ReadFull(resp.Body, make([]byte, 64<<10)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
		}
	})
}

// TestHeader checks the default header fields, and that the caller may replace them.
func TestHeader(t *testing.T) {
	var got []string
	inWorld(t, func(w http.ResponseWriter, r *http.Request) {
		got = []string{r.Header.Get("User-Agent"), r.Header.Get("Accept"), r.Header.Get("Accept-Encoding"), r.Header.Get("X-More")}
		_, _ = io.WriteString(w, info)
	}, func(t *testing.T, n *memnet.Net) {
		for _, test := range []struct {
			header http.Header
			want   []string
		}{
			{nil, []string{"feedctl", "application/json", "identity", ""}},
			{http.Header{"user-agent": {"me"}, "x-more": {"more"}}, []string{"me", "application/json", "identity", "more"}},
		} {
			_, err := open(t, n, couchdb.Config{Header: test.header}).Info(t.Context())
			must(t, err)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		}
	})
}

// TestCancelled: whenever the context ends, the error is that of the context.
func TestCancelled(t *testing.T) {
	for _, where := range []string{"turn", "header", "body", "pause"} {
		inWorld(t, func(w http.ResponseWriter, r *http.Request) {
			switch where {
			case "turn":
				w.Header().Set("Retry-After", "100")
				w.WriteHeader(http.StatusTooManyRequests)
				return
			case "pause":
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			case "body":
				_, _ = io.WriteString(w, "{")
				_ = http.NewResponseController(w).Flush()
			}
			<-r.Context().Done()
		}, func(t *testing.T, n *memnet.Net) {
			ctx, cancel := context.WithTimeout(t.Context(), 1100*time.Millisecond)
			defer cancel()
			if _, err := open(t, n, couchdb.Config{}).Info(ctx); err != context.DeadlineExceeded {
				t.Errorf("in the %s: %v", where, err)
			}
		})
	}
}

// TestAnswers reads responses that are not as documented.
func TestAnswers(t *testing.T) {
	for _, body := range []string{"", "{", "[]", `"x"`, `{"couchdb":"Welcome"}`, "<html>"} {
		inWorld(t, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, body)
		}, func(t *testing.T, n *memnet.Net) {
			_, err := open(t, n, couchdb.Config{}).Info(t.Context())
			if !errors.Is(err, couchdb.ErrMalformed) || !strings.Contains(err.Error(), "http://couch.test/db") {
				t.Errorf("%q: %v", body, err)
			}
		})
	}
}

func TestErrorKinds(t *testing.T) {
	kinds := map[int]error{
		401: couchdb.ErrUnauthorized, 403: couchdb.ErrForbidden, 404: couchdb.ErrNotFound, 409: couchdb.ErrConflict,
		412: couchdb.ErrPreconditionFailed, 413: couchdb.ErrTooLarge, 400: nil,
	}
	for status := range kinds {
		err := fmt.Errorf("wrapped: %w", &couchdb.Error{Status: status})
		for other, kind := range kinds {
			if kind != nil && errors.Is(err, kind) != (status == other) {
				t.Errorf("%d is %v", status, kind)
			}
		}
	}
}

// TestURL checks which URLs are accepted, how they are printed, and where requests go.
func TestURL(t *testing.T) {
	tests := []struct{ url, shown, name, request string }{
		{"http://couch.test/db", "http://couch.test/db", "db", "GET /db"},
		{"http://couch.test:80/db/", "http://couch.test:80/db", "db", "GET /db"},
		{"http://u:s3cret@couch.test/db", "http://couch.test/db", "db", "GET /db"},
		{"http://couch.test/a%2Fb", "http://couch.test/a%2Fb", "a/b", "GET /a%2Fb"},
		{"http://couch.test/prefix/x/db%2B", "http://couch.test/prefix/x/db%2B", "db+", "GET /prefix/x/db%2B"},
	}
	for _, test := range tests {
		inWorld(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, info) }, func(t *testing.T, n *memnet.Net) {
			db := open(t, n, couchdb.Config{URL: test.url})
			if _, err := db.Info(t.Context()); err != nil {
				t.Error(err)
			}
			got := []string{db.URL(), db.Name(), n.Requests()[0]}
			if diff := cmp.Diff([]string{test.shown, test.name, test.request}, got); diff != "" {
				t.Errorf("%s: %s", test.url, diff)
			}
			if _, err := db.Server(t.Context()); err != nil || !strings.HasSuffix(n.Requests()[0], "/") {
				t.Error(err)
			}
		})
	}
	for _, bad := range []string{
		"", "couch.test/db", "ftp://u:s3cret@couch.test/db", "http://u:s3cret@couch.test/", "http://couch.test", "http:///db",
		"http://u:s3cret@couch.test/db?x=1", "http://u:s3cret@couch.test/db#x", "http://u:s3cret@couch.test:x/db", "http://u:s3cret%zz@couch.test/db",
	} {
		if _, err := couchdb.Open(couchdb.Config{URL: bad}); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// TestEscapeID checks that net/http decodes the escaped path to the original id.
func TestEscapeID(t *testing.T) {
	var paths []string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		paths = append(paths, strings.TrimPrefix(r.URL.Path, "/db/"))
	}))
	defer server.Close()
	db, err := couchdb.Open(couchdb.Config{URL: server.URL + "/db"})
	if err != nil {
		t.Fatal(err)
	}
	ids := []string{"a", "a b", "a+b", "a/b", "ä€𝄞", "%2F", "?#[]@!$&'()*,;=:", ".", "..", "\x00\x7f", "\xff\xfe", "a\"b\\", "_design/a/b", "_design/+", "_local/x y"}
	for _, id := range ids {
		resp, err := db.Do(t.Context(), couchdb.Request{Path: couchdb.DocPath(id)})
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		for _, c := range []byte(couchdb.EscapeID(id)) {
			if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~%", rune(c)) {
				t.Errorf("%q has %q", couchdb.EscapeID(id), c)
			}
		}
	}
	if diff := cmp.Diff(ids, paths); diff != "" {
		t.Error(diff)
	}
	for id, want := range map[string]string{"_design/a/b": "_design/a%2Fb", ".": "%2E", "..": "%2E%2E", "...": "..."} {
		if got := couchdb.DocPath(id); got != want {
			t.Errorf("path of %q is %s, want %s", id, got, want)
		}
	}
}

// TestCertificate: nothing is sent to a server with an invalid certificate, and the connection is not
// retried.
func TestCertificate(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request arrived") }))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	defer server.Close()
	db, err := couchdb.Open(couchdb.Config{URL: server.URL + "/db", Auth: couchdb.Auth{Username: "user", Password: "s3cret"}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.Info(t.Context())
	var certificate *tls.CertificateVerificationError
	if !errors.As(err, &certificate) || couchdb.Retryable(err) || strings.Contains(err.Error(), "s3cret") {
		t.Error(err)
	}
}

// TestNoAnswer: a connection that ends before the response is an error, not an empty response.
func TestNoAnswer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer server.Close()
	db, err := couchdb.Open(couchdb.Config{URL: server.URL + "/db", Attempts: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Info(t.Context()); !couchdb.Retryable(err) || errors.Is(err, io.EOF) {
		t.Errorf("error is %v", err)
	}
}
