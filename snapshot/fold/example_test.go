package fold_test

import (
	"context"
	"fmt"
	"log"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/snapshot/fold"
	"github.com/feedctl/feedctl/storage/memory"
)

func Example() {
	ctx, store := context.Background(), memory.New()
	zones, err := producer.Open(ctx, store, "zones", producer.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer zones.Close()
	if _, err := zones.Publish(ctx,
		&feed.Entity{Operation: feed.Put, ContentLocation: "Bern", ContentType: "text/plain", Body: []byte("old")},
		&feed.Entity{Operation: feed.Put, ContentLocation: "Troll", ContentType: "text/plain"},
		&feed.Entity{Operation: feed.Put, ContentLocation: "Bern", ContentType: "text/plain", Body: []byte("new")},
		&feed.Entity{Operation: feed.Delete, ContentLocation: "Troll", ContentType: "text/plain"},
	); err != nil {
		log.Fatal(err)
	}

	index, err := fold.Feed(ctx, store, "zones", fold.Config{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d entity on %d page\n", index.Entities, len(index.Pages))
	// Output: 1 entity on 1 page
}
