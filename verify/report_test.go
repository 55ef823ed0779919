package verify_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/verify"
)

// TestReportAsJSON: the JSON form of a report, on which other programs depend, must not change.
func TestReportAsJSON(t *testing.T) {
	s, pages := newFeed(t)
	pages[1].entities[1].set("Operation-Type", "POST")
	report := s.check(verify.Config{})
	got, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	size := len(pages[0].bytes()) + len(pages[1].bytes()) + len(pages[2].bytes())
	want := fmt.Sprintf(`{
  "url": "%[1]s/feeds/zones",
  "kind": "feed",
  "pages": 3,
  "entities": 6,
  "bytes": %[2]d,
  "first": "2023-11-27T03:00:00Z",
  "last": "2023-11-27T03:02:01Z",
  "violations": [
    {
      "rule": "operation-type",
      "url": "%[1]s/feeds/zones/pages/2",
      "page": 2,
      "part": 1,
      "offset": 206,
      "message": "its Operation-Type is \"POST\"",
      "remedy": "write http-equiv=PUT, http-equiv=PATCH or http-equiv=DELETE"
    }
  ]
}`, s.server.URL, size)
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	clean, _ := newFeed(t)
	if got, err := json.Marshal(clean.check(verify.Config{})); err != nil || !strings.Contains(string(got), `"violations":[]`) {
		t.Errorf("%s, %v", got, err)
	}
}

// TestLargeEntity: a body of 32 MiB takes no more memory than a small one.
func TestLargeEntity(t *testing.T) {
	const size = 32 << 20
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "multipart/mixed; boundary="+boundary)
		w.Header().Set("Last-Modified", clock(0, 0))
		w.Header().Set("Link", "</feeds/large>; rel=self")
		if r.Method == http.MethodHead {
			return
		}
		e := feedEntity(0, 0)
		e.set("Content-Length", fmt.Sprint(size))
		fmt.Fprintf(w, "--%s\r\n%s\r\n\r\n", boundary, strings.Join(e.header, "\r\n"))
		chunk := strings.Repeat("0123456789abcde\n", 4096)
		for sent := 0; sent < size; sent += len(chunk) {
			_, _ = io.WriteString(w, chunk)
		}
		fmt.Fprintf(w, "\r\n--%s--\r\n", boundary)
	}))
	defer server.Close()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	report, err := verify.Feed(t.Context(), server.URL+"/feeds/large", verify.Config{})
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if err := report.Err(); err != nil {
		t.Error(err)
	}
	if report.Bytes < size {
		t.Errorf("%d bytes read", report.Bytes)
	}
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 8<<20 {
		t.Errorf("%d bytes allocated", allocated)
	}
}

// FuzzPage checks arbitrary responses. There must be no panic, and no error, since the server is to
// blame for every problem.
func FuzzPage(f *testing.F) {
	p := feedPage(0)
	f.Add(p.bytes(), p.header.Get("Content-Type"), p.header.Get("Last-Modified"), "</feeds/zones>; rel=self", "sha-256=:AA==:")
	f.Add([]byte("--x"), "multipart/mixed; boundary=x", "now", "<", "=::,")
	client := new(handed)
	f.Fuzz(func(t *testing.T, body []byte, contentType, modified, link, digest string) {
		client.body = body
		client.header = http.Header{"Content-Type": {contentType}, "Last-Modified": {modified}, "Link": {link}, "Repr-Digest": {digest}}
		client.left = 20 // links may never end
		c := verify.Config{HTTPClient: &http.Client{Transport: client}}
		for _, check := range []func() (*verify.Report, error){
			func() (*verify.Report, error) { return verify.Feed(t.Context(), "http://x/feeds/zones", c) },
			func() (*verify.Report, error) { return verify.Snapshot(t.Context(), "http://x/snapshots/zones", c) },
		} {
			report, err := check()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := json.Marshal(report); err != nil {
				t.Fatal(err)
			}
			client.left = 20
		}
	})
}

// handed sends the same response to every request, up to a given number of requests.
type handed struct {
	header http.Header
	body   []byte
	left   int
}

func (h *handed) RoundTrip(r *http.Request) (*http.Response, error) {
	response := &http.Response{StatusCode: http.StatusOK, Header: h.header, Request: r, Body: http.NoBody}
	if r.Method == http.MethodGet {
		response.Body = io.NopCloser(strings.NewReader(string(h.body)))
	}
	if h.left--; h.left < 0 {
		response.StatusCode = http.StatusGone
	}
	return response, nil
}
