package chain_test

import (
	"context"
	"fmt"
	"log"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage/memory"
)

func ExampleReader() {
	ctx, store := context.Background(), memory.New()
	zones, err := producer.Open(ctx, store, "zones", producer.Config{MaxPageEntities: 2})
	if err != nil {
		log.Fatal(err)
	}
	defer zones.Close()
	for _, id := range []string{"<1@example.com>", "<2@example.com>", "<3@example.com>"} {
		if _, err := zones.Publish(ctx, &feed.Entity{ContentID: id, Operation: feed.Put, ContentType: "text/plain"}); err != nil {
			log.Fatal(err)
		}
	}

	newest, err := chain.NewReader(store, "zones").Newest(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("page %d ends with %s\n", newest.Number, newest.LastContentID)
	// Output: page 2 ends with <3@example.com>
}
