package console

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/storage/memory"
)

// maxResponse is the largest size that a page of the console may have in any test, in bytes.
const maxResponse = 100_000

// hostileTexts are values of header fields, keys and names that try to be interpreted as markup or commands.
var hostileTexts = []string{
	`<script>hacked()</script>`,
	`"'></textarea></pre></title><img/src=x/onerror=hacked()>`,
	`javascript:hacked()`,
	`{{.}}<!--`,
	"\u202e\u2066right to left\u2069\u200f",
	"\x1b[31mred\x07\x7f",
	"\xff\xfe\xc0\x80 not UTF-8",
	strings.Repeat(`"`, 1000),
}

// hostileBodies are bodies of any media type.
var hostileBodies = []string{
	`</pre><script>hacked()</script>`,
	`{"</script><script>hacked()</script>":"javascript:hacked()","n":12345678901234567890.00}`,
	"\x00\x01\x02\xff\x1b[31m\u202e",
	`[` + strings.Repeat(`"<script>hacked()</script>",`, 1<<20/28) + `1]`,
	strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000),
	strings.Repeat(`"`, 1<<20),
	``,
}

// hostilePages returns entities with a hostile text in each field, and with hostile bodies.
func hostilePages() (pages [][]feed.Entity) {
	id := 0
	add := func(text, mediaType, body string) {
		id++
		key := feed.EncodeKey(text + "\x00\n")
		if id%2 == 0 {
			key = text
		}
		pages = append(pages, []feed.Entity{{
			ContentID: fmt.Sprint(id) + text, Operation: feed.Put, ContentType: mediaType, ContentLocation: key,
			Header: []feed.Field{{Name: "X-Note", Value: text}, {Name: "X-'onclick'", Value: text}}, Body: []byte(body),
		}})
	}
	for _, text := range hostileTexts {
		for _, mediaType := range []string{"application/json", "text/html; charset=" + text, text} {
			add(text, mediaType, hostileBodies[0])
		}
	}
	for _, body := range hostileBodies {
		for _, mediaType := range []string{"application/json", "text/html", "image/svg+xml", "application/octet-stream"} {
			add("a", mediaType, body)
			if len(body) > maxBody {
				break
			}
		}
	}
	large := feed.Entity{ContentID: "large", Operation: feed.Put, ContentType: "text/html", ContentLocation: strings.Repeat(`"`, 30_000), Body: []byte(hostileBodies[5])}
	many := feed.Entity{ContentID: strings.Repeat(`'`, 1000), Operation: feed.Put, ContentType: strings.Repeat("\u202e", 2000), Body: []byte(hostileBodies[5])}
	for i := range 1000 {
		many.Header = append(many.Header, feed.Field{Name: fmt.Sprintf("X-%d", i), Value: "<script>hacked()</script>"})
	}
	wrong := feed.Entity{ContentID: hostileTexts[0], Operation: feed.Put, ContentType: "text/plain", Header: []feed.Field{{Name: "Content-ID", Value: hostileTexts[1]}}}
	return append(pages, []feed.Entity{large}, []feed.Entity{many}, []feed.Entity{wrong})
}

// dangerous matches markup that can get into a page of the console only from a feed: scripts other than the console's
// own file, event handlers, and images.
var dangerous = regexp.MustCompile(`(?i)<script(?: src="assets/)?[^>]*>|<(?:img|iframe|object|svg onload)[^>]*>|<[^<>]*\son\w+=[^<>]*>|(?:href|src|action)="\s*javascript:`)

// inputs matches the text fields of forms.
var inputs = regexp.MustCompile(`<input [^>]*>`)

// checkHostile fails the test if a page contains anything from a feed except as text.
func checkHostile(t *testing.T, path, html string) {
	t.Helper()
	for _, found := range dangerous.FindAllString(html, -1) {
		if !strings.HasPrefix(found, `<script src="assets/`) {
			t.Errorf("%.100s has %.200q", path, found)
		}
	}
	if !utf8.ValidString(html) {
		t.Errorf("%.100s is not UTF-8", path)
	}
	html = inputs.ReplaceAllString(html, "") // these fields repeat the query, and are isolated from other text
	if i := strings.IndexFunc(html, func(r rune) bool { return r != '\n' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) }); i >= 0 {
		t.Errorf("%.100s has a character that controls text: %q", path, html[max(0, i-50):min(len(html), i+50)])
	}
	if len(html) > maxResponse {
		t.Errorf("%.100s has %d bytes, more than %d", path, len(html), maxResponse)
	}
}

// TestHostile requests all pages about the entities of a hostile feed: its contents are shown as text, and the pages
// have a limited size.
func TestHostile(t *testing.T) {
	t.Parallel()
	store := memory.New()
	pages := hostilePages()
	writeFeed(t, store, "hostile", pages...)
	c := newConsole(t, store, nil)
	for n := range pages {
		for _, path := range []string{"/entity", "/entity?as=json", "/entity?as=text", "/entity?as=hex", "/history"} {
			if path == "/history" && n >= 3*len(hostileTexts) {
				continue // the pages before it are large
			}
			path, query, _ := strings.Cut(path, "?")
			path += fmt.Sprintf("?feed=hostile&n=%d&i=0&%s", n+1, query)
			w := get(c, path)
			if w.Code != http.StatusOK {
				t.Errorf("%s: status %d\n%.500s", path, w.Code, w.Body)
			}
			checkHostile(t, path, w.Body.String())
		}
		path := fmt.Sprintf("/body?feed=hostile&n=%d&i=0", n+1)
		if w := get(c, path); w.Body.String() != string(pages[n][0].Body) || w.Header().Get("Content-Type") != "application/octet-stream" {
			t.Errorf("%s: %d bytes of %s", path, w.Body.Len(), w.Header())
		}
	}
	for _, text := range hostileTexts {
		text := url.QueryEscape(text)
		for _, path := range []string{
			"/search?feed=hostile&q=" + text, "/search?q=" + text, "/search?q=a&feed=" + text, "/entity?n=1&i=0&feed=" + text,
			"/entity?feed=hostile&n=1&i=" + text, "/entity?feed=hostile&n=1&i=0&as=" + text, "/history?feed=hostile&n=1&i=0&before=" + text,
			"/checks?target=" + text, "/feed?name=" + text, "/feeds?q=" + text, "/page?n=1&feed=" + text,
		} {
			checkHostile(t, path, get(c, path).Body.String())
		}
	}
	for _, path := range []string{"/", "/feeds", "/feed?name=hostile", "/pages?feed=hostile", "/page?feed=hostile&n=1", fmt.Sprintf("/page?feed=hostile&n=%d", len(pages))} {
		checkHostile(t, path, get(c, path).Body.String())
	}
}
