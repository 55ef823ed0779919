package console

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/feedstore"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

// newConsole returns a console of a store, with the usual configuration after change has been applied to it.
func newConsole(t *testing.T, store storage.Store, change func(*Config)) *Console {
	t.Helper()
	feeds := feedstore.NewLocal(store, nil)
	t.Cleanup(func() { feeds.Close(t.Context()) })
	config := Config{Store: store, Feeds: feeds, StoreName: "memory:"}
	if change != nil {
		change(&config)
	}
	c, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// get returns the answer to a request for a page, with header fields "NAME: VALUE".
func get(c http.Handler, path string, fields ...string) *httptest.ResponseRecorder {
	return do(c, httptest.NewRequest(http.MethodGet, path, nil), fields...)
}

// post sends a form, and returns the answer.
func post(c http.Handler, path string, form url.Values, fields ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(form.Encode()))
	return do(c, r, append(fields, "Content-Type: application/x-www-form-urlencoded")...)
}

func do(c http.Handler, r *http.Request, fields ...string) *httptest.ResponseRecorder {
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	c.ServeHTTP(w, r)
	return w
}

// TestHeaders: every response, even an error, has the header fields that isolate the page from other sites.
func TestHeaders(t *testing.T) {
	t.Parallel()
	c := newConsole(t, memory.New(), nil)
	for path, status := range map[string]int{"/": 200, "/nothing": 404, "/?part=overview": 200, "/?part=nothing": 404, "/assets/console.css": 200, "/assets/nothing": 404} {
		w := get(c, path)
		if w.Code != status {
			t.Errorf("%s: status %d, want %d", path, w.Code, status)
		}
		for name, want := range map[string]string{
			"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
		} {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", path, name, got, want)
			}
		}
	}
}

// TestAccess: what people with and without credentials may see and do.
func TestAccess(t *testing.T) {
	t.Parallel()
	const reader, writer, stranger = "Authorization: Bearer r", "Authorization: Bearer w", "Authorization: Bearer x"
	const elsewhere = "Sec-Fetch-Site: cross-site"
	closed := func(c *Config) {
		c.ReadAuth, c.WriteAuth = Credentials([]server.Credential{{Bearer: "r"}}), Credentials([]server.Credential{{Bearer: "w"}})
	}
	for name, test := range map[string]struct {
		config   func(*Config)
		fields   []string
		see, act int
	}{
		"open":                       {nil, nil, 200, 403},
		"no credentials":             {closed, nil, 401, 401},
		"wrong credentials":          {closed, []string{stranger}, 401, 401},
		"reader":                     {closed, []string{reader}, 200, 403},
		"writer":                     {closed, []string{writer}, 200, 303},
		"writer on another page":     {closed, []string{writer, elsewhere}, 200, 403},
		"writer of another origin":   {closed, []string{writer, "Origin: https://elsewhere.example"}, 200, 403},
		"writer on this page":        {closed, []string{writer, "Sec-Fetch-Site: same-origin"}, 200, 303},
		"only readers, and a reader": {func(c *Config) { c.ReadAuth = Credentials([]server.Credential{{Bearer: "r"}}) }, []string{reader}, 200, 403},
		"only writers, and no one":   {func(c *Config) { c.WriteAuth = Credentials([]server.Credential{{Bearer: "w"}}) }, nil, 401, 401},
	} {
		c := newConsole(t, memory.New(), test.config)
		acted := false
		err := c.mount(append(c.routes(), route{path: "/act", post: func(*http.Request) (string, error) {
			acted = true
			return "feeds", nil
		}}))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"/", "/assets/console.css"} {
			if w := get(c, path, test.fields...); w.Code != test.see {
				t.Errorf("%s: GET %s has status %d, want %d", name, path, w.Code, test.see)
			}
		}
		w := post(c, "/act", nil, test.fields...)
		if w.Code != test.act || acted != (test.act == 303) {
			t.Errorf("%s: POST has status %d, want %d; carried out: %t", name, w.Code, test.act, acted)
		}
		if acted && w.Header().Get("Location") != "feeds" {
			t.Errorf("%s: POST redirects to %q", name, w.Header().Get("Location"))
		}
	}
}

// TestElsewhere: pages of other origins may link to the console, but not load anything from it.
func TestElsewhere(t *testing.T) {
	t.Parallel()
	c := newConsole(t, memory.New(), nil)
	for fetch, status := range map[string]int{
		"cross-site no-cors": 403, "cross-site cors": 403, "same-site no-cors": 403, "cross-site websocket": 403,
		"cross-site navigate": 200, "same-site navigate": 200, "none navigate": 200, "same-origin cors": 200, "same-origin no-cors": 200,
	} {
		site, mode, _ := strings.Cut(fetch, " ")
		for _, path := range []string{"/feeds", "/search?q=a", "/assets/console.css", "/events?topic=*"} {
			ctx, cancel := context.WithCancel(t.Context())
			if strings.HasPrefix(path, "/events") {
				cancel() // an event stream does not end by itself
			}
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil)
			if w := do(c, r, "Sec-Fetch-Site: "+site, "Sec-Fetch-Mode: "+mode); w.Code != status {
				t.Errorf("%s, %s: status %d, want %d", path, fetch, w.Code, status)
			}
			cancel()
		}
	}
}

// TestCSS: the size of the style sheet has a limit.
func TestCSS(t *testing.T) {
	t.Parallel()
	data, err := assets.ReadFile("assets/console.css")
	if err != nil {
		t.Fatal(err)
	}
	if limit := 12 << 10; len(data) > limit {
		t.Errorf("console.css has %d bytes, more than %d", len(data), limit)
	}
}

// TestRebinding: a console without credentials refuses the requests of a web page whose host name resolves to a
// loopback address.
func TestRebinding(t *testing.T) {
	t.Parallel()
	c := newConsole(t, memory.New(), nil)
	for host, status := range map[string]int{"localhost:9090": 200, "127.0.0.1:9090": 200, "rebound.example": http.StatusMisdirectedRequest} {
		ctx := context.WithValue(t.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9090})
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
		r.Host = host
		w := do(c, r)
		if w.Code != status || (status != 200) != strings.Contains(w.Body.String(), "start it with read credentials") {
			t.Errorf("%s: status %d, want %d\n%s", host, w.Code, status, w.Body)
		}
	}
}
