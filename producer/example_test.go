package producer_test

import (
	"context"
	"fmt"
	"log"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage/memory"
)

// This example publishes an entity twice. Since the entity has a Content-ID, it is in the feed
// only once.
func Example() {
	ctx := context.Background()
	zones, err := producer.Open(ctx, memory.New(), "zones", producer.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer zones.Close()
	for range 2 {
		receipt, err := zones.Publish(ctx, &feed.Entity{
			ContentID:       "<1@example.com>",
			Operation:       feed.Put,
			ContentType:     "application/json",
			ContentLocation: feed.EncodeKey("Europe/Bern"),
			Body:            []byte(`{"country":"CH"}`),
		})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("published %d, duplicates %d\n", receipt.Published, receipt.Duplicates)
	}
	// Output:
	// published 1, duplicates 0
	// published 0, duplicates 1
}

// This example uses a Writer to publish many entities in batches. The Writer collects the next
// batch while others are in flight.
func ExampleFeed_Writer() {
	ctx := context.Background()
	squares, err := producer.Open(ctx, memory.New(), "squares", producer.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer squares.Close()
	w := squares.Writer(producer.WriterOptions{
		MaxEntities: 400,
		Ahead:       8,
		Done: func(o producer.Outcome) error {
			fmt.Println(len(o.Entities), "entities are durable")
			return nil
		},
	})
	defer w.Close()
	for n := range 1000 {
		err := w.Add(ctx, &feed.Entity{
			Operation:       feed.Put,
			ContentType:     "text/plain",
			ContentLocation: fmt.Sprint(n),
			Body:            fmt.Append(nil, n*n),
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	if err := w.Wait(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(w.Receipt().Published, "published")
	// Output:
	// 400 entities are durable
	// 400 entities are durable
	// 200 entities are durable
	// 1000 published
}
