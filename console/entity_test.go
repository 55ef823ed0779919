package console

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

func TestEntity(t *testing.T) {
	t.Parallel()
	store := memory.New()
	deleted := feed.Entity{ContentID: "<3>", Operation: feed.Delete, ContentType: "text/plain", ContentLocation: "Europe%2FZurich"}
	second := put("<2>", "Europe/Zurich", `{"n":12345678901234567890.10,"e":1E+2,"s":"\u00e4"}`)
	second.Header = []feed.Field{{Name: "X-Trace", Value: "a b"}, {Name: "x-trace", Value: "c"}}
	writeFeed(t, store, "zones", []feed.Entity{put("<1>", "Africa/Cairo", `{}`), second}, []feed.Entity{deleted})
	c := newConsole(t, store, nil)

	path := entityPath("zones", 1, 1)
	html := shows(t, c, path, http.StatusOK)
	expect(t, path, html,
		"<h1>Entity 1 of page 1</h1>", "The page has entities 0 to 1.", ">Content-ID</th><td class=\"mono\">&lt;2&gt;<", ">Content-Location</th><td class=\"mono\">Europe%2FZurich<",
		">X-Trace</th><td class=\"mono\">a b<", ">x-trace</th><td class=\"mono\">c<", ">Content-Length</th><td class=\"mono\">51<",
		"{\n  &#34;n&#34;: 12345678901234567890.10,\n  &#34;e&#34;: 1E&#43;2,\n  &#34;s&#34;: &#34;\\u00e4&#34;\n}</pre>",
		`href="entity?feed=zones&amp;i=0&amp;n=1">Previous<`, `href="entity?feed=zones&amp;i=0&amp;n=2">Next<`,
		`href="body?feed=zones&amp;i=1&amp;n=1"`, `href="history?feed=zones&amp;i=1&amp;n=1"`, "header fields are not kept",
	)
	expect(t, path, shows(t, c, path+"&as=text", http.StatusOK), `{&#34;n&#34;:12345678901234567890.10,`)
	expect(t, path, shows(t, c, path+"&as=hex", http.StatusOK), "00000000  7b 22 6e 22 3a 31 32 33")

	path = entityPath("zones", 2, 0)
	html = shows(t, c, path, http.StatusOK)
	expect(t, path, html, "<h1>Entity 0 of page 2</h1>", "DELETE", "The body is empty.", `href="entity?feed=zones&amp;i=1&amp;n=1">Previous<`)
	if strings.Contains(html, ">Next<") || strings.Contains(html, "not kept") {
		t.Errorf("the newest entity has a next one, or unknown fields:\n%s", html)
	}
	path = entityPath("zones", 1, 0)
	if html := shows(t, c, path, http.StatusOK); strings.Contains(html, ">Previous<") {
		t.Errorf("the first entity has one before it:\n%s", html)
	}
}

// TestNoEntity requests entities that do not exist.
func TestNoEntity(t *testing.T) {
	t.Parallel()
	store := memory.New()
	writeFeed(t, store, "zones", []feed.Entity{put("<1>", "a", `{}`)})
	c := newConsole(t, store, nil)
	for query, status := range map[string]int{
		"": 400, "feed=zones&n=1": 400, "feed=zones&n=1&i=-1": 400, "feed=zones&n=0&i=1": 400, "feed=zones&n=1&i=99999999999999999999": 400,
		"feed=zones&n=1&i=2": 404, "feed=zones&n=2&i=0": 404, "feed=none&n=1&i=0": 404, "feed=..%2f&n=1&i=0": 400,
	} {
		for _, path := range []string{"/entity?", "/history?", "/body?"} {
			w := get(c, path+query)
			if w.Code != status || !strings.Contains(w.Body.String(), "<h1>") || w.Header().Get("Content-Disposition") != "" {
				t.Errorf("%s: status %d, want %d\n%s", path+query, w.Code, status, w.Body)
			}
		}
	}
}

// TestCommands: in command lines, hostile names cannot break out of their quotation marks, and no command line contains
// characters that control a terminal.
func TestCommands(t *testing.T) {
	t.Parallel()
	store := memory.New()
	const break1, break2 = `'; touch x; '`, "$(touch y)`touch z`\"\\"
	hostile := put("<"+break1+break2+">", break1+break2, `{}`)
	hostile.ContentType = `application/json; a="` + break2 + `"`
	writeFeed(t, store, "zones", []feed.Entity{hostile, put("\x1b[31m", "a\x03\ntouch x\n", `{}`), put("\u202e", "b", `{}`)})
	c := newConsole(t, store, func(c *Config) { c.StoreName = "file:" + break1 })

	v := view(t, c, entityPath("zones", 1, 0))
	const quoted1 = `'\''; touch x; '\''`
	for got, want := range map[string]string{
		v.Command: `feedctl tail zones --store 'file:` + quoted1 + `' --from 2026-02-03T04:05:06Z --follow=false --json | ` +
			`grep -F -m1 -e '"contentId":"<` + quoted1 + "$(touch y)`touch z`" + `\"\\>"'`,
		v.Curl: `curl -fsS -o zones-1-0.body 'http://example.com/body?feed=zones&i=0&n=1'`,
		v.Publish: `feedctl publish zones - --store 'file:` + quoted1 + `' --format raw --op PUT --key-value '` + quoted1 + break2 +
			`' --content-type 'application/json; a="` + break2 + `"' < zones-1-0.body`,
	} {
		if got != want {
			t.Errorf("the command line is\n%s\nwant\n%s", got, want)
		}
	}
	if v := view(t, c, entityPath("zones", 1, 1)); v.Command != "" || v.Curl != "" || v.Publish != "" {
		t.Errorf("a key with control characters is in a command line: %q, %q, %q", v.Command, v.Curl, v.Publish)
	}
	if v := view(t, c, entityPath("zones", 1, 2)); v.Command != "" || v.Publish == "" {
		t.Errorf("the command lines are %q and %q", v.Command, v.Publish)
	}
}

// view returns what the page of an entity shows.
func view(t *testing.T, c *Console, path string) *entityView {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host, r.RequestURI = "example.com", path
	v, err := c.getEntity(r)
	if err != nil {
		t.Fatal(err)
	}
	return v.(*entityView)
}

// TestDownload saves bodies of any kind to files.
func TestDownload(t *testing.T) {
	t.Parallel()
	store := memory.New()
	large := strings.Repeat("<script>hacked()</script>\x00\xff", 10_000)
	html := feed.Entity{ContentID: "<2>", Operation: feed.Put, ContentType: "text/html", Body: []byte(large)}
	writeFeed(t, store, "zones", []feed.Entity{put("<1>", "a", `{}`), html, put("<3>", "a", `{"a":1}`)})
	c := newConsole(t, store, nil)
	for i, want := range map[string]string{"0": "{}", "1": large, "2": `{"a":1}`} {
		w := get(c, "/body?feed=zones&n=1&i="+i)
		if w.Code != http.StatusOK || w.Body.String() != want {
			t.Errorf("entity %s: status %d, %d bytes, want %d", i, w.Code, w.Body.Len(), len(want))
		}
		for name, want := range map[string]string{
			"Content-Type": "application/octet-stream", "X-Content-Type-Options": "nosniff",
			"Content-Disposition": `attachment; filename="zones-1-` + i + `.body"`,
		} {
			if got := w.Header().Get(name); got != want {
				t.Errorf("entity %s: %s is %q, want %q", i, name, got, want)
			}
		}
	}
}

// impatient is a ResponseWriter that fails unless a new deadline is set before each write.
type impatient struct {
	*httptest.ResponseRecorder
	deadline bool
}

func (w *impatient) SetWriteDeadline(time.Time) error {
	w.deadline = true
	return nil
}

func (w *impatient) Write(p []byte) (int, error) {
	if !w.deadline || len(p) > 64<<10 {
		return 0, os.ErrDeadlineExceeded
	}
	w.deadline = false
	return w.ResponseRecorder.Write(p)
}

// TestDownloadSlow: a download may take a long time, but each piece of it has a deadline.
func TestDownloadSlow(t *testing.T) {
	t.Parallel()
	store := memory.New()
	large := strings.Repeat("x", 300<<10)
	writeFeed(t, store, "zones", []feed.Entity{put("<1>", "a", `{}`), put("<2>", "a", large)})
	c := newConsole(t, store, nil)
	for i, want := range []string{"{}", large} {
		w := &impatient{ResponseRecorder: httptest.NewRecorder()}
		c.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("/body?feed=zones&n=1&i=%d", i), nil))
		if w.Body.String() != want {
			t.Errorf("entity %d: %d bytes, want %d", i, w.Body.Len(), len(want))
		}
	}
}

// TestDownloadAccess: a request for a body needs the same credentials as one for a page.
func TestDownloadAccess(t *testing.T) {
	t.Parallel()
	c, _ := actConsole(t, &fakeActions{}, &strings.Builder{})
	const all, limited = "Authorization: Bearer all", "Authorization: Basic YW5uOnA="
	for fields, status := range map[string]int{"": 401, limited: 403, all: 200} {
		if w := get(c, "/body?feed=zones&n=1&i=0", fields); w.Code != status || (w.Body.String() == "v") != (status == 200) {
			t.Errorf("%q: status %d, want %d", fields, w.Code, status)
		}
	}
}

// TestDamaged: a page whose digest is wrong is not shown, and a download from it ends with an error.
func TestDamaged(t *testing.T) {
	t.Parallel()
	store := memory.New()
	large := put("<2>", "a", `"`+strings.Repeat("a", 200<<10)+`"`)
	writeFeed(t, store, "zones", []feed.Entity{put("<1>", "a", `{}`), large}, []feed.Entity{put("<3>", "b", `{}`)})
	damage(t, store, layout.FeedPage("zones", 1), "aaa", "axa")
	c := newConsole(t, store, nil)
	for _, path := range []string{entityPath("zones", 1, 0), "/body?feed=zones&n=1&i=0", "/history?feed=zones&n=1&i=0", "/search?feed=zones&q=1"} {
		expect(t, path, shows(t, c, path, http.StatusInternalServerError), "corrupt in the store")
	}
	defer func() {
		if err, _ := recover().(error); !errors.Is(err, http.ErrAbortHandler) {
			t.Errorf("the download ended with %v", err)
		}
	}()
	get(c, "/body?feed=zones&n=1&i=1")
}

// damage replaces a string in the body of an object.
func damage(t *testing.T, store storage.Store, key, old, with string) {
	t.Helper()
	object, err := store.Get(t.Context(), key, 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(object.Body)
	if err == nil {
		_, err = store.Replace(t.Context(), key, object.Version, object.Meta, storage.Bytes([]byte(strings.Replace(string(body), old, with, 1))))
	}
	if err != nil {
		t.Fatal(err)
	}
}
