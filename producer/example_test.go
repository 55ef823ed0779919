package producer_test

import (
	"context"
	"fmt"
	"log"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage/memory"
)

// An entity that has a Content-ID may be published again: it is in the feed once.
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
