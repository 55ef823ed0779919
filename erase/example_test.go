package erase_test

import (
	"context"
	"fmt"
	"log"

	"github.com/feedctl/feedctl/erase"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage/memory"
)

func Example() {
	ctx, store := context.Background(), memory.New()
	people, err := producer.Open(ctx, store, "people", producer.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer people.Close()
	for _, key := range []string{"ann", "bob", "ann"} {
		e := &feed.Entity{Operation: feed.Put, ContentLocation: key, ContentType: "text/plain", Body: []byte("address of " + key)}
		if _, err := people.Publish(ctx, e); err != nil {
			log.Fatal(err)
		}
	}

	plan, err := erase.Find(ctx, store, "people", erase.Config{Keys: []string{"ann"}})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := plan.Run(ctx); err != nil {
		log.Fatal(err)
	}
	found := plan.Report()
	fmt.Printf("%d entities on %d page\n", found.Entities, found.Affected)
	// Output: 2 entities on 1 page
}
