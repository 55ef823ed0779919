package publish_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/publish"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage/memory"
)

// TestConcurrent: several goroutines each publish more entities than fit into one request, one of
// them with a stream. The entities of each goroutine are in the feed in the order in which it
// published them.
func TestConcurrent(t *testing.T) {
	handler, err := server.New(memory.New(), server.Config{Writable: true})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(handler)
	defer web.Close()
	defer handler.Close(context.Background())
	client, err := publish.New(publish.Config{URL: web.URL + "/feeds/things"})
	if err != nil {
		t.Fatal(err)
	}
	const publishers, each = 4, 5000 // more than batchEntities
	var all sync.WaitGroup
	for p := range publishers {
		all.Go(func() {
			var entities []*feed.Entity
			for n := range each {
				e := &feed.Entity{
					Operation: feed.Put, ContentType: "text/plain", ContentLocation: fmt.Sprint(p),
					ContentID: fmt.Sprintf("<%d@%d.example>", n, p), Body: []byte("x"),
				}
				if n == each/2 {
					e.Body, e.Stream, e.Size = nil, strings.NewReader("stream"), 6
				}
				entities = append(entities, e)
			}
			receipt, err := client.Publish(t.Context(), entities...)
			if want := fmt.Sprintf("<%d@%d.example>", each-1, p); err != nil || receipt.Published != each || receipt.ContentID != want {
				t.Errorf("receipt %+v, error %v; want %d published, the last of them %s", receipt, err, each, want)
			}
		})
	}
	all.Wait()
	reader, err := consumer.New(consumer.Config{})
	if err != nil {
		t.Fatal(err)
	}
	next := make(map[string]int)
	for e, err := range reader.Entities(t.Context(), web.URL+"/feeds/things", consumer.Beginning()) {
		if err != nil {
			t.Fatal(err)
		}
		p := e.ContentLocation
		if want := fmt.Sprintf("<%d@%s.example>", next[p], p); e.ContentID != want {
			t.Fatalf("publisher %s: got %s, want %s", p, e.ContentID, want)
		}
		next[p]++
	}
	for p := range publishers {
		if next[fmt.Sprint(p)] != each {
			t.Errorf("publisher %d: %d entities", p, next[fmt.Sprint(p)])
		}
	}
}
