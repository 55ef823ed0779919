package consumer

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/feed"
)

const secret = "s3cret"

// TestCredentials: credentials are sent to the feed's origin only, even after redirects. Redirects
// to other origins need permission.
func TestCredentials(t *testing.T) {
	configs := map[string]Config{
		"basic":  {Credentials: Credentials{Username: "user", Password: secret}},
		"bearer": {Credentials: Credentials{Bearer: secret}},
		"header": {Header: http.Header{"X-Api-Key": {secret}, "Cookie": {"session=" + secret}}},
		"in URL": {},
	}
	hasSecret := func(r *http.Request) bool {
		_, password, _ := r.BasicAuth()
		all := password + r.Header.Get("Authorization") + r.Header.Get("X-Api-Key") + r.Header.Get("Cookie")
		return strings.Contains(all, secret)
	}
	tests := []struct {
		name  string
		to    string // where page 1 is redirected to
		allow []string
		err   error
	}{
		{name: "same origin", to: "http://feed.test/moved"},
		{name: "same origin, with port", to: "http://FEED.test:80/moved"},
		{name: "other host", to: "http://evil.test/moved", err: ErrOrigin},
		{name: "other port", to: "http://feed.test:8080/moved", err: ErrOrigin},
		{name: "subdomain", to: "http://sub.feed.test/moved", err: ErrOrigin},
		{name: "other scheme", to: "ftp://feed.test/moved", err: ErrOrigin},
		{name: "other host, allowed", to: "http://pages.test/moved", allow: []string{"http://pages.test"}},
		{name: "other host, allowed, with a password", to: "http://user:" + secret + "@pages.test/moved", allow: []string{"http://pages.test"}},
		{name: "other host, another allowed", to: "http://pages.test:81/moved", allow: []string{"http://pages.test"}, err: ErrOrigin},
	}
	for kind, config := range configs {
		for _, test := range tests {
			t.Run(kind+"/"+test.name, func(t *testing.T) {
				f := newFeed("a0 | b1")
				f.intercept = func(rw http.ResponseWriter, r *http.Request, number int) bool {
					home := r.Host == "feed.test" || strings.EqualFold(r.Host, "feed.test:80")
					if hasSecret(r) != home {
						t.Errorf("%s %s%s: secret: %v", r.Method, r.Host, r.URL, hasSecret(r))
					}
					if r.Header.Get("User-Agent") != "feedctl" {
						t.Errorf("User-Agent is %q", r.Header.Get("User-Agent"))
					}
					switch {
					case r.URL.Path == "/moved":
						f.serve(rw, r, 1)
					case number == 1 && r.Method == http.MethodGet:
						rw.Header().Set("Location", test.to)
						rw.WriteHeader(http.StatusFound)
					default:
						return false
					}
					return true
				}
				inWorld(t, f, func(t *testing.T, w *world) {
					config.AllowOrigins = test.allow
					c := w.newClient(config)
					url := feedURL
					if kind == "in URL" {
						url = "http://user:" + secret + "@feed.test/feed"
					}
					n := 0
					var err error
					for _, err = range c.Entities(t.Context(), url, Beginning()) {
						if err == nil {
							n++
						}
					}
					if !errors.Is(err, test.err) || err == nil && n != 2 {
						t.Errorf("got %d entities and error %v, want error %v", n, err, test.err)
					}
					if err != nil && strings.Contains(err.Error(), secret) {
						t.Errorf("error has a secret: %v", err)
					}
				})
			})
		}
	}
}

// TestForeignLink: a link to another origin needs permission, like a redirect.
func TestForeignLink(t *testing.T) {
	for _, allowed := range []bool{false, true} {
		f := newFeed("a0 | b1")
		f.links = func(number int, l *feed.Links) {
			if number == 1 {
				l.Self = "http://pages.test/feed/1"
			} else {
				l.Prev = "http://user:" + secret + "@pages.test/feed/1"
			}
		}
		f.intercept = func(_ http.ResponseWriter, r *http.Request, _ int) bool {
			if r.Host == "pages.test" && r.Header.Get("Authorization") != "" {
				t.Error("credentials went to another origin")
			}
			return false
		}
		inWorld(t, f, func(t *testing.T, w *world) {
			c := Config{Credentials: Credentials{Bearer: "token"}}
			if allowed {
				c.AllowOrigins = []string{"http://pages.test"}
				want(t, w.newClient(c), Beginning(), "a b")
				return
			}
			_, err := ids(t, w.newClient(c), Beginning())
			if !errors.Is(err, ErrOrigin) || strings.Contains(err.Error(), secret) {
				t.Error(err)
			}
			if n := count(w.requests(), "GET pages.test"); n > 0 {
				t.Errorf("%d requests to the other origin", n)
			}
		})
	}
}

// TestHeaders: the header fields of the caller are sent, and replace the defaults.
func TestHeaders(t *testing.T) {
	f := newFeed("a0")
	f.intercept = func(_ http.ResponseWriter, r *http.Request, _ int) bool {
		got := []string{r.Header.Get("User-Agent"), r.Header.Get("Accept-Encoding"), r.Header.Get("X-More")}
		if diff := cmp.Diff([]string{"me/1", "identity", "more"}, got); diff != "" {
			t.Error(diff)
		}
		return false
	}
	inWorld(t, f, func(t *testing.T, w *world) {
		want(t, w.newClient(Config{Header: http.Header{
			"User-Agent": {"me/1"}, "Accept-Encoding": {"identity"}, "x-more": {"more"},
		}}), Beginning(), "a")
	})
}

// TestRetry responds with errors a few times and measures the delays.
func TestRetry(t *testing.T) {
	const least, most = 250 * time.Millisecond, 30 * time.Second
	tests := []struct {
		name       string
		status     int
		retryAfter func() string
		times      int
		least      time.Duration // of all pauses
		most       time.Duration
		fails      bool
	}{
		{name: "429 with seconds", status: 429, times: 1, least: 7 * time.Second, most: 7 * time.Second,
			retryAfter: func() string { return "7" }},
		{name: "503 with a date", status: 503, times: 1, least: 41 * time.Second, most: 42 * time.Second,
			retryAfter: func() string { return time.Now().Add(42 * time.Second).UTC().Format(http.TimeFormat) }},
		{name: "Retry-After in the past", status: 503, times: 1, least: least / 2, most: least,
			retryAfter: func() string { return time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat) }},
		{name: "Retry-After is capped", status: 429, times: 1, least: 5 * time.Minute, most: 5 * time.Minute,
			retryAfter: func() string { return "86400" }},
		{name: "Retry-After is nonsense", status: 429, times: 1, least: least / 2, most: least,
			retryAfter: func() string { return "soon" }},
		{name: "408", status: 408, times: 3, least: 7 * least / 2, most: 7 * least},
		{name: "425", status: 425, times: 1, least: least / 2, most: least},
		{name: "500", status: 500, times: 2, least: 3 * least / 2, most: 3 * least},
		{name: "too often", status: 500, times: 100, least: 127 * least / 2, most: 127 * least, fails: true},
		{name: "400", status: 400, times: 1, fails: true},
		{name: "401", status: 401, times: 1, fails: true},
		{name: "lost connection", times: 2, least: 3 * least / 2, most: 3 * least},
		{name: "lost connections", times: 100, least: 127 * least / 2, most: 127 * least, fails: true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := newFeed("a0")
			failed := 0
			f.intercept = func(rw http.ResponseWriter, r *http.Request, _ int) bool {
				if r.Method != http.MethodHead || failed == test.times {
					return false
				}
				failed++
				if test.status == 0 {
					panic(http.ErrAbortHandler)
				}
				if test.retryAfter != nil {
					rw.Header().Set("Retry-After", test.retryAfter())
				}
				rw.WriteHeader(test.status)
				return true
			}
			inWorld(t, f, func(t *testing.T, w *world) {
				begun := time.Now()
				got, err := ids(t, w.newClient(Config{}), Beginning())
				if took := time.Since(begun); took < test.least || took > test.most {
					t.Errorf("took %v, want %v to %v", took, test.least, test.most)
				}
				var status *StatusError
				switch {
				case !test.fails && (err != nil || got != "a"):
					t.Errorf("got %q and error %v", got, err)
				case test.fails && err == nil:
					t.Error("no error")
				case test.fails && test.status != 0 && (!errors.As(err, &status) || status.StatusCode != test.status):
					t.Error(err)
				}
			})
		})
	}
}

// deniedTransport fails permanently.
type deniedTransport struct{ requests int }

func (d *deniedTransport) RoundTrip(*http.Request) (*http.Response, error) {
	d.requests++
	return nil, errDenied
}

type permanentError struct{ error }

func (permanentError) Permanent() bool { return true }

var errDenied = permanentError{errors.New("denied")}

func TestPermanent(t *testing.T) {
	transport := new(deniedTransport)
	client, err := New(Config{HTTPClient: &http.Client{Transport: transport}, Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ids(t, client, Beginning()); !errors.Is(err, errDenied) || transport.requests != 1 {
		t.Errorf("%d requests, %v", transport.requests, err)
	}
}

// TestTimeouts: a request is repeated if the server does not respond, stops in the middle of a
// response or, with a minimum rate, is too slow.
func TestTimeouts(t *testing.T) {
	const headerTimeout, idleTimeout = 20 * time.Second, 10 * time.Second
	tests := []struct {
		name  string
		serve func(f *testFeed, rw http.ResponseWriter, r *http.Request)
		least time.Duration
		most  time.Duration
		bytes int
	}{
		{"no header", func(_ *testFeed, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
			headerTimeout, headerTimeout + time.Second, 0},
		{"hangs in the body", func(f *testFeed, rw http.ResponseWriter, r *http.Request) {
			f.serveBytes(rw, 1, pageSize(f, 1)/2)
			<-r.Context().Done()
		}, idleTimeout, idleTimeout + time.Second, 0},
		{"slow but alive", drip, time.Minute, time.Hour, 0},
		{"too slow", drip, idleTimeout, time.Minute, 1 << 10},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := newFeed("a0 b1")
			first := true
			f.intercept = func(rw http.ResponseWriter, r *http.Request, _ int) bool {
				if r.Method != http.MethodGet || !first {
					return false
				}
				first = false
				test.serve(f, rw, r)
				return true
			}
			inWorld(t, f, func(t *testing.T, w *world) {
				begun := time.Now()
				want(t, w.newClient(Config{HeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, IdleBytes: test.bytes}), Beginning(), "a b")
				if took := time.Since(begun); took < test.least || took > test.most {
					t.Errorf("took %v, want %v to %v", took, test.least, test.most)
				}
			})
		})
	}
}

// drip sends a byte a second.
func drip(f *testFeed, rw http.ResponseWriter, r *http.Request) {
	for name, values := range mustPage(f, 1) {
		rw.Header()[name] = values
	}
	time.Sleep(18 * time.Second)
	for _, b := range f.body(f.pages[0]) {
		select {
		case <-r.Context().Done():
			return
		case <-time.After(time.Second):
		}
		_, _ = rw.Write([]byte{b})
		_ = http.NewResponseController(rw).Flush()
	}
}

func mustPage(f *testFeed, number int) http.Header {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, header, _ := f.page(number)
	return header
}

// TestSlowCaller: a slow caller is not mistaken for a slow server.
func TestSlowCaller(t *testing.T) {
	inWorld(t, newFeed("a0 b1 | c2 | d3"), func(t *testing.T, w *world) {
		n := 0
		for _, err := range w.newClient(Config{}).Entities(t.Context(), feedURL, Beginning()) {
			if err != nil {
				t.Fatal(err)
			}
			n++
			time.Sleep(time.Hour)
		}
		if n != 4 {
			t.Errorf("got %d entities", n)
		}
	})
}

// TestProblem reads problem details (RFC 9457).
func TestProblem(t *testing.T) {
	handler := func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "application/problem+json; charset=utf-8")
		rw.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(rw, `{"type":"https://x.test/no","title":"No","detail":"Because.","extra":1}`)
	}
	inWorld(t, http.HandlerFunc(handler), func(t *testing.T, w *world) {
		_, err := ids(t, w.newClient(Config{}), Beginning())
		var status *StatusError
		if !errors.As(err, &status) {
			t.Fatal(err)
		}
		problem := Problem{Type: "https://x.test/no", Title: "No", Detail: "Because."}
		if diff := cmp.Diff(&StatusError{URL: feedURL, StatusCode: http.StatusForbidden, Problem: problem}, status); diff != "" {
			t.Error(diff)
		}
	})
}

func TestConfig(t *testing.T) {
	for name, c := range map[string]Config{
		"negative size":     {MaxWhole: -1},
		"negative timeout":  {IdleTimeout: -1},
		"two credentials":   {Credentials: Credentials{Username: "a", Bearer: "b"}},
		"origin is no URL":  {AllowOrigins: []string{"example.com"}},
		"timeout of client": {HTTPClient: &http.Client{Timeout: time.Second}},
	} {
		if _, err := New(c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	c, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{"", "feed", "ftp://x.test/", "http://", "http://user:" + secret + "@%zz/", "s3cret://user:" + secret + "@x"} {
		for _, err := range c.Entities(t.Context(), url, Beginning()) {
			if err == nil || strings.Contains(err.Error(), ":"+secret) {
				t.Errorf("%q: error is %v", url, err)
			}
		}
	}
}

// TestStatusErrorText: a title that equals the status text adds nothing (RFC 9457, section 4.2.1).
func TestStatusErrorText(t *testing.T) {
	for problem, want := range map[Problem]string{
		{}: "get http://h/f: status 404 Not Found",
		{Title: "Not Found", Detail: "no such feed"}: "get http://h/f: status 404 Not Found: no such feed",
		{Title: "Gone fishing"}:                      "get http://h/f: status 404 Not Found: Gone fishing",
	} {
		err := &StatusError{URL: "http://h/f", StatusCode: http.StatusNotFound, Problem: problem}
		if err.Error() != want {
			t.Errorf("%+v: %q, want %q", problem, err.Error(), want)
		}
	}
	post := &StatusError{Method: http.MethodPost, URL: "http://h/f", StatusCode: http.StatusMethodNotAllowed}
	if got, want := post.Error(), "post http://h/f: status 405 Method Not Allowed"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestErrorsHideSignatures: a presigned URL in a log would give access to the page.
func TestErrorsHideSignatures(t *testing.T) {
	const url = "https://bucket.example/page?X-Amz-Date=20260101T000000Z&X-Amz-Security-Token=secret&X-Amz-Signature=secret"
	for _, err := range []error{
		&StatusError{URL: url, StatusCode: http.StatusForbidden},
		&PageError{URL: url, Part: -1, Err: ErrLinks},
		&PageError{URL: url, Part: 2, Err: ErrLinks},
	} {
		if text := err.Error(); strings.Contains(text, "secret") || !strings.Contains(text, "/page?X-Amz-Date=20260101T000000Z&X-Amz-Security-Token=xxxxx&") {
			t.Error(text)
		}
	}
}
