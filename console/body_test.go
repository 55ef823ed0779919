package console

import (
	"bytes"
	"context"
	"html/template"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/chain"
	multipart "github.com/feedctl/feedctl/page"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

// TestBody shows whole bodies of several kinds.
func TestBody(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, mediaType, as, body string
		form, text                string
		invalid                   bool
	}{
		{"JSON", "application/json", "", `{"n":1.10}`, asJSON, "{\n  \"n\": 1.10\n}", false},
		{"JSON with a +json type", "application/problem+json; charset=utf-8", "", `[1]`, asJSON, "[\n  1\n]", false},
		{"invalid JSON", "application/json", "", `[1,]`, asText, `[1,]`, true},
		{"JSON that ends too early", "application/json", "", `[1`, asText, `[1`, true},
		{"empty JSON", "application/json", "", ``, asText, ``, true},
		{"JSON with a NUL", "application/json", "", "\"a\x00\"", asText, `"a\u0000"`, true},
		{"JSON that is not UTF-8", "application/json", "", "[\"\xff\"]", asJSON, "[\n  \"\\u00ff\"\n]", false},
		{"JSON with reordered text", "application/json", "", "\"\u202e\u2066\"", asJSON, `"\u202e\u2066"`, false},
		{"text", "text/plain", "", "a\r\nb\t\u202ec\x1b", asText, "a\\u000d\nb\t\\u202ec\\u001b", false},
		{"XML", "image/svg+xml", "", "<svg/>", asText, "<svg/>", false},
		{"bytes", "application/octet-stream", "", "\x00\x01a", asHex, "00000000  00 01 61                                          |..a|\n", false},
		{"text without a type", "application/octet-stream", "", "abc\n", asText, "abc\n", false},
		{"no media type", "/;\x00", "", "abc\n", asText, "abc\n", false},
		{"JSON as text", "application/json", asText, `{"n":1}`, asText, `{"n":1}`, false},
		{"text as JSON", "text/plain", asJSON, `{"n":1}`, asJSON, "{\n  \"n\": 1\n}", false},
		{"an unknown form", "text/plain", "html", `<b>`, asText, `<b>`, false},
	} {
		got := viewBody([]byte(test.body), int64(len(test.body)), test.mediaType, test.as)
		want := bodyView{As: test.form, Text: test.text, All: true, Size: int64(len(test.body)), Invalid: test.invalid}
		if got != want {
			t.Errorf("%s is shown as %+v, want %+v", test.name, got, want)
		}
	}
}

// TestLargeBody shows the beginnings of bodies that do not fit into a page. The HTML has a limited size even if each
// character has to be escaped.
func TestLargeBody(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	for name, body := range map[string]string{
		"JSON on one line":    `[` + strings.Repeat(`{"a":"b"},`, size/10) + `1]`,
		"JSON in a string":    `"` + strings.Repeat("a", size) + `"`,
		"JSON of empty lists": strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000),
		"deep JSON":           strings.Repeat("[", 9_000) + strings.Repeat(" ", size),
		"quotation marks":     strings.Repeat(`"`, size),
		"Chinese":             strings.Repeat("\u4e2d", size/3),
		"reordered text":      strings.Repeat("\u202e", size/3),
		"not UTF-8":           strings.Repeat("\x80", size),
		"zeros":               strings.Repeat("\x00", size),
	} {
		for _, as := range []string{asJSON, asText, asHex} {
			v := viewBody([]byte(body[:maxBody]), int64(len(body)), "application/json", as)
			html := template.HTMLEscapeString(v.Text)
			if as == asJSON && strings.Contains(name, "JSON") && v.As != asJSON {
				t.Errorf("%s is shown as %s", name, v.As)
			}
			if v.All || len(html) < maxHex || len(html) > maxMarkup+maxMarkup/8 {
				t.Errorf("%s as %s: %d bytes of HTML, all of it: %t", name, as, len(html), v.All)
			}
			if strings.Contains(v.Text, "\ufffd") {
				t.Errorf("%s as %s: a character was cut", name, as)
			}
		}
	}
}

// A repeated is a body of any size, most of which is generated as it is read.
type repeated struct {
	head, tail string
	size       int64 // of the letters between head and tail
}

func (r repeated) Size() int64 { return int64(len(r.head)+len(r.tail)) + r.size }

func (r repeated) Open() (io.ReadCloser, error) {
	return io.NopCloser(io.MultiReader(strings.NewReader(r.head), io.LimitReader(letters{}, r.size), strings.NewReader(r.tail))), nil
}

// letters is an endless reader of text.
type letters struct{}

func (letters) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'a'
	}
	return len(b), nil
}

// hugeStore has one page with an entity of 8 GiB, whose bytes are made as they are read.
type hugeStore struct {
	storage.Store
	info storage.Info
	body repeated
}

func newHugeStore(t *testing.T, name string) *hugeStore {
	t.Helper()
	s := &hugeStore{Store: memory.New()}
	p := &chain.Page{Feed: name, Number: 1, Closed: true, Entities: 2, First: start, Last: start, LastContentID: "<2>", Boundary: "boundary", SHA256: "unknown"}
	const size = 8 << 30
	first, second := put("<1>", "a", ""), put("<2>", "b", "{}")
	first.LastModified, second.LastModified = start, start
	head, err := multipart.AppendPartHeader(nil, p.Boundary, first.AppendHeader(nil), size)
	if err != nil {
		t.Fatal(err)
	}
	tail, err := multipart.AppendPart([]byte("x"), p.Boundary, second.AppendHeader(nil), second.Body)
	if err != nil {
		t.Fatal(err)
	}
	s.body = repeated{string(head) + `"`, `"` + string(multipart.AppendClose(bytes.TrimPrefix(tail, []byte("x")), p.Boundary)), size - 2}
	meta, err := p.Meta()
	if err != nil {
		t.Fatal(err)
	}
	s.info = storage.Info{Key: "feeds/" + name + "/pages/000000000001", Version: "1", Size: s.body.Size(), Modified: start, Meta: meta}
	return s
}

// TestHugeEntity shows and finds an entity that is larger than the memory.
func TestHugeEntity(t *testing.T) {
	store := newHugeStore(t, "films")
	c := newConsole(t, store, nil)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	path := entityPath("films", 1, 0)
	expect(t, path, shows(t, c, path, 200), "8.0 GiB", "&#34;aaaaaaaa", "Only the beginning is shown", "was not checked")
	for _, path := range []string{"/history?feed=films&n=1&i=0", "/search?feed=films&q=1"} {
		expect(t, path, shows(t, c, path, 200), "8.0 GiB", "entity?feed=films&amp;i=0&amp;n=1", "Of page 1 only the first 32 MiB were searched.")
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 16<<20 {
		t.Errorf("the pages took %d MiB of memory", used>>20)
	}
}

func (s *hugeStore) Stat(ctx context.Context, key string) (storage.Info, error) {
	if key == s.info.Key {
		return s.info, ctx.Err()
	}
	return s.Store.Stat(ctx, key)
}

func (s *hugeStore) Get(ctx context.Context, key string, offset, length int64) (*storage.Object, error) {
	if key != s.info.Key {
		return s.Store.Get(ctx, key, offset, length)
	}
	body, err := storage.OpenFrom(s.body, offset)
	return &storage.Object{Info: s.info, Body: body}, err
}
