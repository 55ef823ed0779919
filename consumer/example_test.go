package consumer_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/page"
)

// serveFeed serves a feed of one page.
func serveFeed() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", page.ContentType("example"))
		w.Header().Set("Last-Modified", "Mon, 27 Nov 2023 03:10:00 GMT")
		w.Header().Set("Link", "<http://"+r.Host+"/feed>; rel=self")
		if r.Method == http.MethodHead {
			return
		}
		fmt.Fprint(w, "--example\r\nContent-Type: text/plain\r\nContent-ID: <1-A@example>\r\n"+
			"Operation-Type: http-equiv=PUT\r\nLast-Modified: Mon, 27 Nov 2023 03:09:59 GMT\r\n\r\nhello\r\n"+
			"--example\r\nContent-Type: text/plain\r\nContent-ID: <1-B@example>\r\n"+
			"Operation-Type: http-equiv=PUT\r\nLast-Modified: Mon, 27 Nov 2023 03:10:00 GMT\r\n\r\nworld\r\n"+
			"--example--\r\n")
	}))
}

// Read a feed, and later continue at the position where it ended.
func ExampleClient_Entities() {
	server := serveFeed()
	defer server.Close()
	client, err := consumer.New(consumer.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.CloseIdleConnections()

	var last feed.Position
	for e, err := range client.Entities(context.Background(), server.URL+"/feed", consumer.Beginning()) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s %s: %s\n", e.Operation, e.ContentID, e.Body)
		last = e.Position()
	}
	for _, err := range client.Entities(context.Background(), server.URL+"/feed", consumer.After(last)) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("not reached: there is nothing new")
	}
	// Output:
	// PUT <1-A@example>: hello
	// PUT <1-B@example>: world
}

// A latest is a sink that keeps the newest body and the position in memory.
type latest struct {
	body     string
	position feed.Position
}

func (l *latest) Position(context.Context) (feed.Position, error) { return l.position, nil }

func (l *latest) Begin(context.Context) (consumer.Batch, error) {
	return &latestBatch{sink: l, body: l.body}, nil
}

func (l *latest) Close() error { return nil }

// A latestBatch holds the contents that a latest will have after the commit.
type latestBatch struct {
	sink *latest
	body string
}

func (b *latestBatch) Apply(_ context.Context, e *feed.Entity) error {
	b.body = string(e.Body)
	return nil
}

func (b *latestBatch) Commit(_ context.Context, at feed.Position) error {
	b.sink.body, b.sink.position = b.body, at
	return nil
}

func (b *latestBatch) Rollback(context.Context) error { return nil }

// Consume a feed into a sink. When the job runs again, it continues where it ended.
func ExampleJob() {
	server := serveFeed()
	defer server.Close()
	client, err := consumer.New(consumer.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.CloseIdleConnections()

	sink := &latest{}
	job := consumer.Job{Client: client, URL: server.URL + "/feed", Sink: sink}
	for range 2 {
		stats, err := job.Run(context.Background())
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(stats.Entities, "entities, newest is", sink.body)
	}
	// Output:
	// 2 entities, newest is world
	// 0 entities, newest is world
}
