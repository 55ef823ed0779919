package replica_test

import (
	"context"
	"fmt"
	"log"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/replica"
	"github.com/feedctl/feedctl/storage/memory"
)

func Example() {
	ctx, from, to := context.Background(), memory.New(), memory.New()
	zones, err := producer.Open(ctx, from, "zones", producer.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer zones.Close()
	if _, err := zones.Publish(ctx, &feed.Entity{Operation: feed.Put, ContentLocation: "Bern", ContentType: "text/plain"}); err != nil {
		log.Fatal(err)
	}

	backup := replica.New(from, to, replica.Config{})
	if err := backup.Run(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("feeds:", backup.Report().Feeds)
	// Output: feeds: 1
}
