package consumer

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/page"
)

// BenchmarkConsume consumes pages of 1 MiB with entities of 1 KB over loopback,
// into a sink that does nothing. The server is in the same process.
func BenchmarkConsume(b *testing.B) {
	const pages, perPage, size = 64, 800, 1000
	var served [pages][]byte
	for n := range served {
		for i := range perPage {
			e := feed.Entity{ContentID: fmt.Sprintf("<%d-%d@bench>", n, i), Operation: feed.Put, LastModified: second(n),
				ContentType: "application/json", ContentLocation: fmt.Sprintf("item-%d", i), Body: bytes.Repeat([]byte("x"), size)}
			var err error
			if served[n], err = page.AppendPart(served[n], "0123456789abcdef0123456789abcdef", e.AppendHeader(nil), e.Body); err != nil {
				b.Fatal(err)
			}
		}
		served[n] = page.AppendClose(served[n], "0123456789abcdef0123456789abcdef")
	}
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		n, err := strconv.Atoi(r.URL.Path[1:])
		if err != nil {
			n = pages - 1
		}
		var links feed.Links
		links.Self = fmt.Sprintf("http://%s/%d", r.Host, n)
		if n > 0 {
			links.Prev = fmt.Sprintf("http://%s/%d", r.Host, n-1)
		}
		if n < pages-1 {
			links.Next = fmt.Sprintf("http://%s/%d", r.Host, n+1)
		}
		rw.Header()["Link"] = links.Header()
		rw.Header().Set("Content-Type", page.ContentType("0123456789abcdef0123456789abcdef"))
		rw.Header().Set("Last-Modified", feed.FormatTime(second(n)))
		rw.Header().Set("Content-Length", strconv.Itoa(len(served[n])))
		if r.Method == http.MethodGet {
			_, _ = rw.Write(served[n])
		}
	}))
	defer server.Close()
	client, err := New(Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer client.CloseIdleConnections()
	b.ReportAllocs()
	b.SetBytes(pages * int64(len(served[0])))
	for b.Loop() {
		job := Job{Client: client, URL: server.URL + "/feed", Sink: nothing{}}
		stats, err := job.Run(b.Context())
		if err != nil || stats.Entities != pages*perPage {
			b.Fatal(stats, err)
		}
	}
	b.ReportMetric(float64(pages*perPage*b.N)/b.Elapsed().Seconds(), "entities/s")
}

// nothing is a sink that does nothing.
type nothing struct{}

func (nothing) Position(context.Context) (feed.Position, error)  { return feed.Position{}, nil }
func (nothing) Begin(context.Context) (Batch, error)             { return nothing{}, nil }
func (nothing) Close() error                                     { return nil }
func (nothing) Apply(_ context.Context, e *feed.Entity) error    { return nil }
func (nothing) Commit(_ context.Context, at feed.Position) error { return nil }
func (nothing) Rollback(context.Context) error                   { return nil }
