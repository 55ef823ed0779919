package server_test

import (
	"bytes"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/page"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage"
)

// TestPublishInTrace: entities keep the trace context of the request, unless they have their own.
func TestPublishInTrace(t *testing.T) {
	const parent, own = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-11111111111111111111111111111111-2222222222222222-01"
	eachStore(t, func(t *testing.T, store storage.Store, connect func(*testing.T, http.Handler) *site) {
		c := connect(t, newServer(t, store, server.Config{Writable: true}))
		post := func(body, contentType string, fields ...string) {
			t.Helper()
			receipt(t, c.do(t, http.MethodPost, "/feeds/f", body, append(fields, "Content-Type: "+contentType)...))
		}
		post("single", "text/plain", "Traceparent: "+parent, "Tracestate: a=1")
		post("{\"a\":1}\n{\"a\":2}\n", "application/x-ndjson", "traceparent: "+parent)
		post("--b\r\nContent-Type: text/plain\r\nTraceparent: "+own+"\r\n\r\none\r\n--b\r\nContent-Type: text/plain\r\n\r\ntwo\r\n--b--\r\n",
			"multipart/mixed; boundary=b", "Traceparent: "+parent)
		post("none", "text/plain", "Traceparent: nonsense", "Tracestate: a=1")
		post("none", "text/plain")

		got := c.get(t, "/feeds/f/pages/1")
		boundary, err := page.Boundary(got.Header.Get("Content-Type"))
		check(t, err)
		var traces []feed.Trace
		for part, err := range page.NewReader(bytes.NewReader(got.body), boundary, page.ReaderOptions{}).Parts() {
			check(t, err)
			var e feed.Entity
			check(t, feed.Parse(&e, part, true))
			traces = append(traces, e.Trace())
		}
		want := []feed.Trace{{Parent: parent, State: "a=1"}, {Parent: parent}, {Parent: parent}, {Parent: own}, {Parent: parent}, {}, {}}
		if diff := cmp.Diff(want, traces); diff != "" {
			t.Error(diff)
		}
	})
}
