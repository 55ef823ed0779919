package server_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/readers"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage/file"
)

// BenchmarkPage answers requests for a closed page of 20 KB, without a network.
func BenchmarkPage(b *testing.B) {
	store, err := file.New(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	p, err := producer.Open(b.Context(), store, "f", producer.Config{MaxPageEntities: 20})
	if err != nil {
		b.Fatal(err)
	}
	for i := range 45 {
		e := &feed.Entity{Operation: feed.Put, ContentType: "application/json", ContentLocation: fmt.Sprint(i), Body: fmt.Appendf(nil, "%01000d", i)}
		if _, err := p.Publish(b.Context(), e); err != nil {
			b.Fatal(err)
		}
	}
	s, err := server.New(store, server.Config{})
	if err != nil {
		b.Fatal(err)
	}
	tracked := readers.New(readers.Config{}).Handler(s)
	ctx := context.WithValue(b.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	ctx = context.WithValue(ctx, http.ServerContextKey, new(http.Server))
	request := func(path, coding string) *http.Request {
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil)
		r.Host, r.RemoteAddr = "127.0.0.1:8080", "127.0.0.1:5000"
		r.Header.Set("Accept-Encoding", coding)
		return r
	}
	tracked.ServeHTTP(httptest.NewRecorder(), request("/feeds/f", "identity")) // now it knows which pages are linked
	for _, coding := range []string{"identity", "gzip"} {
		b.Run(coding, func(b *testing.B) {
			r := request("/feeds/f/pages/1", coding)
			w := &discarded{header: http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				clear(w.header)
				tracked.ServeHTTP(w, r)
			}
			if w.bytes == 0 {
				b.Fatal("no answer")
			}
		})
	}
}

// A discarded response counts the bytes of the body.
type discarded struct {
	header http.Header
	bytes  int64
}

func (d *discarded) Header() http.Header              { return d.header }
func (d *discarded) WriteHeader(int)                  {}
func (d *discarded) SetWriteDeadline(time.Time) error { return nil }
func (d *discarded) Write(p []byte) (int, error) {
	d.bytes += int64(len(p))
	return len(p), nil
}
