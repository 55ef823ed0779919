package publish_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/input"
	"github.com/feedctl/feedctl/publish"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage/memory"
)

// In this example, a service publishes an event. If it does not learn whether the event was
// published, it publishes the event again. The server recognizes the event by its Content-ID.
func ExampleClient_Publish() {
	url, stop := serve()
	defer stop()
	client, err := publish.New(publish.Config{URL: url + "/feeds/orders"})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	for range 2 {
		receipt, err := client.Publish(context.Background(), &feed.Entity{
			ContentID:       "<order-17-paid@shop.example.org>",
			Operation:       feed.Put,
			ContentType:     "application/json",
			ContentLocation: feed.EncodeKey("order/17"),
			Body:            []byte(`{"id": 17, "paid": true}`),
		})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(receipt.Published, "published,", receipt.Duplicates, "duplicates")
	}
	// Output:
	// 1 published, 0 duplicates
	// 0 published, 1 duplicates
}

// In this example, an import fails before its end, and the next import continues after the
// entities that were published.
func ExampleImport() {
	url, stop := serve()
	defer stop()
	client, err := publish.New(publish.Config{URL: url + "/feeds/zones"})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	lines := "{\"id\":\"Europe/Berlin\"}\n{\"id\":\"Africa/Lagos\"}\n"
	for _, text := range []string{lines + "{broken", lines + "{\"id\":\"Asia/Tokyo\"}\n"} {
		state, err := publish.OpenState(filepath.Join(dir, "state"), "zones")
		if err != nil {
			log.Fatal(err)
		}
		done, err := (&publish.Import{
			To:       client.Ordered(),
			Entities: input.NDJSON(strings.NewReader(text), input.Options{}),
			State:    state,
		}).Run(context.Background())
		fmt.Println(done.Skipped, "skipped,", done.Published, "published, error:", err != nil)
	}
	// Output:
	// 0 skipped, 2 published, error: true
	// 2 skipped, 1 published, error: false
}

// serve starts a server. In practice, the server runs elsewhere.
func serve() (url string, stop func()) {
	handler, err := server.New(memory.New(), server.Config{Writable: true})
	if err != nil {
		log.Fatal(err)
	}
	web := httptest.NewServer(handler)
	return web.URL, func() {
		web.Close()
		if err := handler.Close(context.Background()); err != nil && !errors.Is(err, context.Canceled) {
			log.Print(err)
		}
	}
}
