package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage"
)

func TestConditions(t *testing.T) {
	const earlier, later = "Mon, 27 Nov 2023 03:09:59 GMT", "Mon, 27 Nov 2023 03:10:01 GMT"
	tests := []struct {
		name   string
		fields []string // {etag} stands for the page's ETag
		want   int
	}{
		{"none", nil, 200},
		{"If-None-Match", []string{"If-None-Match: {etag}"}, 304},
		{"If-None-Match, weak", []string{"If-None-Match: W/{etag}"}, 304},
		{"If-None-Match, any", []string{"If-None-Match: *"}, 304},
		{"If-None-Match, list", []string{`If-None-Match: "a", W/"b" , {etag}`}, 304},
		{"If-None-Match, two fields", []string{`If-None-Match: "a"`, `If-None-Match: {etag}`}, 304},
		{"If-None-Match, comma in a tag", []string{`If-None-Match: "a,b", {etag}`}, 304},
		{"If-None-Match, other", []string{`If-None-Match: "a"`}, 200},
		{"If-None-Match, without quotes", []string{`If-None-Match: a`}, 200},
		{"If-None-Match, cut", []string{`If-None-Match: "a`}, 200},
		{"If-None-Match, of gzip", []string{`If-None-Match: {etag-gzip}`}, 200},
		{"If-None-Match before If-Modified-Since", []string{`If-None-Match: "a"`, "If-Modified-Since: " + later}, 200},
		// An equal date is not enough: the page may have changed within the second.
		{"If-Modified-Since, equal", []string{"If-Modified-Since: " + epochHTTP}, 200},
		{"If-Modified-Since, later", []string{"If-Modified-Since: " + later}, 304},
		{"If-Modified-Since, RFC 850", []string{"If-Modified-Since: Monday, 27-Nov-23 03:10:01 GMT"}, 304},
		{"If-Modified-Since, earlier", []string{"If-Modified-Since: " + earlier}, 200},
		{"If-Modified-Since, no date", []string{"If-Modified-Since: yesterday"}, 200},
		{"If-Match", []string{"If-Match: {etag}"}, 200},
		{"If-Match, any", []string{"If-Match: *"}, 200},
		{"If-Match, weak", []string{"If-Match: W/{etag}"}, 412},
		{"If-Match, other", []string{`If-Match: "a"`}, 412},
		{"If-Match before If-Unmodified-Since", []string{"If-Match: {etag}", "If-Unmodified-Since: " + earlier}, 200},
		{"If-Match and If-None-Match", []string{"If-Match: {etag}", "If-None-Match: {etag}"}, 304},
		{"If-Unmodified-Since, equal", []string{"If-Unmodified-Since: " + epochHTTP}, 200},
		{"If-Unmodified-Since, earlier", []string{"If-Unmodified-Since: " + earlier}, 412},
	}
	eachStore(t, func(t *testing.T, store storage.Store, connect func(*testing.T, http.Handler) *site) {
		publishTo(t, store, "f", 1, 4)
		c := connect(t, newServer(t, store, server.Config{}))
		for _, path := range []string{"/feeds/f", "/feeds/f/pages/1", "/feeds/f/pages/2"} {
			plain := c.get(t, path)
			etag := plain.Header.Get("Etag")
			tags := strings.NewReplacer("{etag}", etag, "{etag-gzip}", strings.TrimSuffix(etag, `"`)+`-gzip"`)
			for _, tt := range tests {
				fields := make([]string, len(tt.fields))
				for i, field := range tt.fields {
					fields[i] = tags.Replace(field)
				}
				for _, method := range []string{http.MethodGet, http.MethodHead} {
					got := c.do(t, method, path, "", fields...)
					if got.StatusCode != tt.want {
						t.Errorf("%s %s, %s: %s, want %d", method, path, tt.name, got.Status, tt.want)
					}
					switch tt.want {
					case 304:
						if len(got.body) > 0 {
							t.Errorf("%s %s, %s: 304 with a body", method, path, tt.name)
						}
						for _, name := range []string{"Etag", "Link", "Cache-Control", "Vary", "Content-Location", "Last-Modified"} {
							if strings.Join(got.Header[name], " ") != strings.Join(plain.Header[name], " ") {
								t.Errorf("%s %s, %s: 304 with %s %q", method, path, tt.name, name, got.Header[name])
							}
						}
					case 412:
						if method == http.MethodGet {
							if name, _ := got.problem(t); name != "precondition" {
								t.Errorf("%s %s, %s: problem %s", method, path, tt.name, name)
							}
						}
					}
				}
			}
		}
	})
}

func TestRanges(t *testing.T) {
	eachStore(t, func(t *testing.T, store storage.Store, connect func(*testing.T, http.Handler) *site) {
		publishTo(t, store, "f", 1, 4)
		c := connect(t, newServer(t, store, server.Config{}))
		for _, path := range []string{"/feeds/f", "/feeds/f/pages/1"} {
			whole := c.get(t, path)
			size := len(whole.body)
			etag := whole.Header.Get("Etag")
			for _, tt := range []struct {
				fields     []string
				want       int
				first, end int // of the part
			}{
				{[]string{"Range: bytes=0-0"}, 206, 0, 1},
				{[]string{"Range: bytes=10-19"}, 206, 10, 20},
				{[]string{"Range: bytes=10-"}, 206, 10, size},
				{[]string{"Range: bytes=-7"}, 206, size - 7, size},
				{[]string{"Range: bytes=-999999"}, 206, 0, size},
				{[]string{"Range: bytes=5-99999999999999999999999"}, 206, 5, size},
				{[]string{"Range: Bytes = 5-9"}, 206, 5, 10},
				{[]string{"Range: bytes=" + itoa(size-40) + "-" + itoa(size-3)}, 206, size - 40, size - 2}, // into the closing delimiter
				{[]string{"Range: bytes=" + itoa(size-2) + "-"}, 206, size - 2, size},
				{[]string{"Range: bytes=" + itoa(size) + "-"}, 416, 0, 0},
				{[]string{"Range: bytes=99999999999999999999-"}, 416, 0, 0},
				{[]string{"Range: bytes=-0"}, 416, 0, 0},
				{[]string{"Range: bytes=0-1,3-4"}, 200, 0, size},
				{[]string{"Range: bytes=9-3"}, 200, 0, size},
				{[]string{"Range: bytes=-"}, 200, 0, size},
				{[]string{"Range: bytes=+1-2"}, 200, 0, size},
				{[]string{"Range: lines=0-1"}, 200, 0, size},
				{[]string{"Range: nonsense"}, 200, 0, size},
				{[]string{"Range: bytes=0-4", "If-Range: " + etag}, 206, 0, 5},
				{[]string{"Range: bytes=0-4", "If-Range: W/" + etag}, 200, 0, size},
				{[]string{"Range: bytes=0-4", `If-Range: "other"`}, 200, 0, size},
				{[]string{"Range: bytes=0-4", "If-Range: " + epochHTTP}, 200, 0, size}, // not a strong validator here
				{[]string{"Range: bytes=0-4", "If-Match: " + etag}, 206, 0, 5},
				{[]string{"Range: bytes=0-4", "If-None-Match: " + etag}, 304, 0, 0},
				{[]string{"Range: bytes=0-4", "Accept-Encoding: identity"}, 206, 0, 5},
			} {
				got := c.get(t, path, tt.fields...)
				if got.StatusCode != tt.want {
					t.Errorf("GET %s, %q: %s, want %d", path, tt.fields, got.Status, tt.want)
					continue
				}
				switch tt.want {
				case 206:
					wantRange := "bytes " + itoa(tt.first) + "-" + itoa(tt.end-1) + "/" + itoa(size)
					if got.Header.Get("Content-Range") != wantRange || got.Header.Get("Content-Length") != itoa(tt.end-tt.first) {
						t.Errorf("GET %s, %q: Content-Range %q, Content-Length %s; want %q", path, tt.fields, got.Header.Get("Content-Range"), got.Header.Get("Content-Length"), wantRange)
					}
					if got.Header.Get("Repr-Digest") != reprDigest(whole.body) || got.Header.Get("Etag") != etag {
						t.Errorf("GET %s, %q: digest and ETag must be those of the whole representation", path, tt.fields)
					}
					fallthrough
				case 200:
					if string(got.body) != string(whole.body[tt.first:tt.end]) {
						t.Errorf("GET %s, %q: got %q", path, tt.fields, got.body)
					}
				case 416:
					if name, _ := got.problem(t); name != "range" || got.Header.Get("Content-Range") != "bytes */"+itoa(size) {
						t.Errorf("GET %s, %q: problem %s, Content-Range %q", path, tt.fields, name, got.Header.Get("Content-Range"))
					}
				}
			}
			head := c.do(t, http.MethodHead, path, "", "Range: bytes=0-1")
			if head.StatusCode != 200 || head.Header.Get("Content-Length") != itoa(size) {
				t.Errorf("HEAD %s with Range: %s", path, head.Status)
			}
		}
	})
}
