package doctor_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/doctor"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/inprocess"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

const feedURL = "https://data.example/feeds/f"

// A fault is something that a proxy does wrong, with the checks that must report it.
type fault struct {
	name     string
	request  func(*http.Request)             // changes the request to the server
	response func(*http.Response) error      // changes the response to the client
	handler  func(http.Handler) http.Handler // replaces the proxy
	url      string                          // of the feed; "" means feedURL
	auth     string
	allow    string // an origin
	want     map[string]doctor.Level
}

func del(name string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Del(name) }
}

func strip(name string) func(*http.Response) error {
	return func(r *http.Response) error {
		r.Header.Del(name)
		return nil
	}
}

// rewriteBody changes whole pages.
func rewriteBody(change func([]byte) []byte) func(*http.Response) error {
	return func(r *http.Response) error {
		if r.StatusCode != http.StatusOK || r.Request.Method == http.MethodHead {
			return nil
		}
		data, err := io.ReadAll(r.Body)
		if err != nil {
			return err
		}
		data = change(data)
		r.Body = io.NopCloser(bytes.NewReader(data))
		r.ContentLength = int64(len(data))
		r.Header.Set("Content-Length", strconv.Itoa(len(data)))
		return nil
	}
}

// compress does what a proxy that compresses everything does.
func compress(r *http.Response) error {
	if r.Request.Header.Get("X-Accepts") != "gzip" {
		return nil
	}
	err := rewriteBody(func(data []byte) []byte {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write(data)
		_ = w.Close()
		return b.Bytes()
	})(r)
	r.Header.Set("Content-Encoding", "gzip")
	return err
}

// uncompressed makes the server send pages uncompressed.
func uncompressed(r *http.Request) {
	r.Header.Set("X-Accepts", r.Header.Get("Accept-Encoding"))
	r.Header.Set("Accept-Encoding", "identity")
}

// instead responds to the selected requests in place of the server.
func instead(when func(*http.Request) bool, answer http.HandlerFunc) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if when(r) {
				answer(w, r)
			} else {
				next.ServeHTTP(w, r)
			}
		})
	}
}

func always(*http.Request) bool { return true }

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func waits(r *http.Request) bool { return r.Header.Get("Prefer") != "" }

func after(d time.Duration, h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(d):
			h(w, r)
		case <-r.Context().Done():
		}
	}
}

// only is the expectation that a single check, with the given name, reports something.
func only(name string, level doctor.Level) map[string]doctor.Level {
	return map[string]doctor.Level{name: level}
}

func control(when, value string) func(*http.Response) error {
	return func(r *http.Response) error {
		if strings.Contains(r.Header.Get("Cache-Control"), when) {
			r.Header.Set("Cache-Control", value)
		}
		return nil
	}
}

func faults(stale http.Handler) []fault {
	return []fault{
		{name: "none"},
		{name: "Link is stripped", response: strip("Link"), want: only("link", doctor.Problem)},
		{name: "Link is mangled", want: only("link", doctor.Problem), response: func(r *http.Response) error {
			r.Header.Set("Link", `<mailto:x>; rel="self"`)
			return nil
		}},
		{name: "Host is not passed on", request: func(r *http.Request) { r.Host = "backend:8080" }, want: only("origin", doctor.Problem)},
		{name: "Last-Modified is stripped", response: strip("Last-Modified"), want: only("last-modified", doctor.Problem)},
		{name: "ETag is stripped", response: strip("Etag"), want: only("etag", doctor.Problem)},
		{name: "ETag is weakened", want: only("etag", doctor.Warning), response: func(r *http.Response) error {
			if etag := r.Header.Get("Etag"); etag != "" {
				r.Header.Set("Etag", "W/"+etag)
			}
			return nil
		}},
		{name: "If-None-Match is stripped", request: del("If-None-Match"), want: only("304", doctor.Warning)},
		{name: "If-None-Match is refused", want: only("304", doctor.Problem),
			handler: instead(func(r *http.Request) bool { return r.Header.Get("If-None-Match") != "" && !waits(r) }, status(http.StatusBadRequest))},
		{name: "Range is stripped", request: del("Range"), want: only("range", doctor.Warning)},
		{name: "Range is refused", want: only("range", doctor.Problem),
			handler: instead(func(r *http.Request) bool { return r.Header.Get("Range") != "" }, status(http.StatusRequestedRangeNotSatisfiable))},
		{name: "Range is changed", want: only("range", doctor.Problem), request: func(r *http.Request) {
			if r.Header.Get("Range") != "" {
				r.Header.Set("Range", "bytes=3-6")
			}
		}},
		{name: "HEAD is refused", want: only("head", doctor.Problem),
			handler: instead(func(r *http.Request) bool { return r.Method == http.MethodHead }, status(http.StatusMethodNotAllowed))},
		{name: "HEAD omits headers", want: only("head", doctor.Problem), response: func(r *http.Response) error {
			if r.Request.Method == http.MethodHead {
				r.Header.Del("Link")
			}
			return nil
		}},
		{name: "newest page is cached", want: only("cache", doctor.Problem), response: func(r *http.Response) error {
			r.Header.Set("Age", "120")
			return nil
		}},
		{name: "newest page is cached silently", want: only("cache", doctor.Problem),
			handler: instead(func(r *http.Request) bool { return r.URL.RawQuery == "" }, stale.ServeHTTP)},
		{name: "newest page may be cached", response: control("no-cache", "max-age=60"), want: only("cache", doctor.Problem)},
		{name: "old pages may not be cached", response: control("immutable", "max-age=60"), want: only("immutable", doctor.Warning)},
		{name: "compressed under the same ETag", request: uncompressed, response: compress, want: only("coding", doctor.Problem)},
		{name: "compressed without Vary", want: only("coding", doctor.Problem), response: strip("Vary")},
		{name: "compressed and cut", want: only("coding", doctor.Problem), response: func(r *http.Response) error {
			if r.Header.Get("Content-Encoding") == "" {
				return nil
			}
			return rewriteBody(func(b []byte) []byte { return b[:len(b)-9] })(r)
		}},
		{name: "not compressed", request: del("Accept-Encoding")},
		{name: "body is changed", request: uncompressed, want: only("body", doctor.Problem),
			response: rewriteBody(func(b []byte) []byte { return append(b, "<!-- cached -->"...) })},
		{name: "body is cut", request: uncompressed, want: only("body", doctor.Problem),
			response: rewriteBody(func(b []byte) []byte { return b[:len(b)-8] })},
		{name: "Prefer is stripped", request: del("Prefer"), want: only("wait", doctor.Warning)},
		{name: "waiting is cut", want: only("wait", doctor.Problem), handler: instead(waits, after(5*time.Second, status(http.StatusGatewayTimeout)))},
		{name: "waiting never ends", want: only("wait", doctor.Problem), handler: instead(waits, after(time.Hour, status(http.StatusOK)))},
		{name: "answers are held back", want: only("wait", doctor.Warning), handler: instead(waits, after(50*time.Second, status(http.StatusNotModified)))},
		{name: "clock is wrong", want: only("clock", doctor.Problem), response: func(r *http.Response) error {
			r.Header.Set("Date", time.Now().Add(-5*time.Minute).UTC().Format(http.TimeFormat))
			return nil
		}},
		{name: "redirect to https", url: "http://data.example/feeds/f", want: only("reach", doctor.Problem),
			handler: instead(func(r *http.Request) bool { return r.TLS == nil }, func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, feedURL, http.StatusMovedPermanently)
			})},
		{name: "redirect to https, allowed", url: "http://data.example/feeds/f", allow: "https://data.example", want: only("redirects", doctor.Problem),
			handler: instead(func(r *http.Request) bool { return r.TLS == nil }, func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, feedURL, http.StatusMovedPermanently)
			})},
		{name: "redirect to itself", url: "https://data.example/loop", want: only("reach", doctor.Problem),
			handler: instead(always, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/loop", http.StatusFound) })},
		{name: "redirect to another path", url: "https://data.example/f", want: only("redirects", doctor.Warning),
			handler: instead(func(r *http.Request) bool { return r.URL.Path == "/f" }, func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "/feeds/f", http.StatusFound)
			})},
		{name: "no TLS", url: "http://data.example/feeds/f", want: only("tls", doctor.Warning)},
		{name: "credentials without TLS", url: "http://data.example/feeds/f", auth: "Bearer x", want: only("tls", doctor.Problem)},
		{name: "the server's URL", url: "https://data.example/"},
		{name: "login page", want: only("reach", doctor.Problem), handler: instead(always, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<form>")
		})},
		{name: "credentials are refused", want: only("reach", doctor.Problem), handler: instead(always, status(http.StatusUnauthorized))},
		{name: "feed is empty", want: map[string]doctor.Level{}, handler: instead(always, status(http.StatusNoContent))},
		{name: "server is down", want: only("reach", doctor.Problem), handler: instead(always, status(http.StatusBadGateway))},
		{name: "connection is cut", want: only("reach", doctor.Problem), handler: instead(always, func(http.ResponseWriter, *http.Request) {
			panic(http.ErrAbortHandler)
		})},
	}
}

// site returns a server of a feed with the given number of pages.
func site(t *testing.T, store storage.Store, pages int) *server.Server {
	t.Helper()
	f, err := producer.Open(t.Context(), store, "f", producer.Config{MaxPageEntities: 1})
	if err != nil {
		t.Fatal(err)
	}
	for range pages {
		e := &feed.Entity{Operation: feed.Put, ContentType: "text/plain", ContentLocation: "k", Body: bytes.Repeat([]byte("text "), 100)}
		if _, err := f.Publish(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := server.New(store, server.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// dated sets the Date of a handler's responses, as the HTTP server does.
func dated(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", time.Now().UTC().Format(http.TimeFormat))
		h.ServeHTTP(w, r)
	})
}

// proxy returns a proxy with the fault f, in front of a server.
func (f *fault) proxy(backend http.Handler) http.Handler {
	p := &httputil.ReverseProxy{
		Transport: inprocess.Transport(backend),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", "backend"
			if r.In.TLS != nil {
				r.Out.URL.Scheme = "https"
			}
			r.Out.Host = r.In.Host
			if f.request != nil {
				f.request(r.Out)
			}
		},
		ModifyResponse: f.response,
		FlushInterval:  -1,
	}
	if f.handler != nil {
		return f.handler(p)
	}
	return p
}

// TestFaults: each fault of a proxy is reported by its own check only.
func TestFaults(t *testing.T) {
	for i := range faults(http.NotFoundHandler()) {
		synctest.Test(t, func(t *testing.T) {
			stale := dated(site(t, memory.New(), 2))
			f := faults(stale)[i]
			if f.url == "" {
				f.url = feedURL
			}
			proxy := f.proxy(dated(site(t, memory.New(), 3)))
			config := doctor.Config{Transport: inprocess.Transport(proxy), Authorization: f.auth}
			if f.allow != "" {
				config.AllowOrigins = []string{f.allow}
			}
			findings, err := doctor.Feed(t.Context(), f.url, config)
			if err != nil {
				t.Fatalf("%s: %v", f.name, err)
			}
			got := make(map[string]doctor.Level)
			for _, finding := range findings {
				switch finding.Level {
				case doctor.Warning, doctor.Problem:
					got[finding.Check] = finding.Level
					if finding.Found == "" || finding.Why == "" || finding.Fix == "" {
						t.Errorf("%s: incomplete finding: %+v", f.name, finding)
					}
				case doctor.OK, doctor.Skipped:
					if finding.Found == "" || finding.Why != "" || finding.Fix != "" {
						t.Errorf("%s: finding without a fault: %+v", f.name, finding)
					}
				}
			}
			if diff := cmp.Diff(f.want, got, cmpEmpty); diff != "" {
				t.Errorf("%s (-want +got):\n%s%v", f.name, diff, findings)
			}
			if f.want == nil {
				for _, finding := range findings {
					if finding.Level != doctor.OK {
						t.Errorf("%s: %+v", f.name, finding)
					}
				}
			}
		})
	}
}

// cmpEmpty treats a nil map as an empty one.
var cmpEmpty = cmp.Transformer("entries", func(m map[string]doctor.Level) []string {
	var entries []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		entries = append(entries, fmt.Sprint(name, " ", m[name]))
	}
	return entries
})

// TestCredentials: credentials are sent only to their origin.
func TestCredentials(t *testing.T) {
	var other []string
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		other = append(other, r.Header.Get("Authorization")+r.Header.Get("X-Key"))
	}))
	defer elsewhere.Close()
	var own string
	home := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		own = r.Header.Get("Authorization") + r.Header.Get("X-Key")
		http.Redirect(w, r, elsewhere.URL, http.StatusFound)
	}))
	defer home.Close()
	config := doctor.Config{Authorization: "Bearer x", Header: http.Header{"X-Key": {"y"}}}
	if _, err := doctor.Feed(t.Context(), home.URL+"/feeds/f", config); err != nil {
		t.Fatal(err)
	}
	if own != "Bearer xy" || len(other) != 0 {
		t.Errorf("the feed's origin was sent %q; another, which was not allowed, %q", own, other)
	}
	config.AllowOrigins = []string{elsewhere.URL}
	if _, err := doctor.Feed(t.Context(), home.URL+"/feeds/f", config); err != nil {
		t.Fatal(err)
	}
	if len(other) != 1 || other[0] != "" {
		t.Errorf("the other origin was sent %q", other)
	}
}

func TestFeedURL(t *testing.T) {
	for _, raw := range []string{"", "feed", "s3://b/p", "http:///feeds/f", "https://ann:secret@data.example/feeds/f", "http://h/%zz"} {
		_, err := doctor.Feed(t.Context(), raw, doctor.Config{})
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", raw, err)
		}
	}
	u := url.URL{Scheme: "http", Host: "127.0.0.1:1"}
	findings, err := doctor.Feed(t.Context(), u.String(), doctor.Config{})
	if err != nil || findings[0].Check != "reach" || findings[0].Level != doctor.Problem || !strings.Contains(findings[0].Found, "refused") {
		t.Errorf("%v, %v", findings, err)
	}
}
