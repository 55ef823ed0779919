package fromstore_test

import (
	"context"
	"fmt"
	"log"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/consumer/fromstore"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage/memory"
)

func Example() {
	ctx, store := context.Background(), memory.New()
	zones, err := producer.Open(ctx, store, "zones", producer.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer zones.Close()
	if _, err := zones.Publish(ctx, &feed.Entity{Operation: feed.Delete, ContentLocation: "Berlin"}); err != nil {
		log.Fatal(err)
	}

	source := fromstore.New(store, fromstore.Config{})
	defer source.Close()
	client, err := consumer.New(consumer.Config{Source: source})
	if err != nil {
		log.Fatal(err)
	}
	for e, err := range client.Entities(ctx, source.Feed("zones"), consumer.Beginning()) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(e.Operation, e.Key())
	}
	// Output: DELETE Berlin
}
