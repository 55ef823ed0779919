package feedstore_test

import (
	"context"
	"fmt"
	"io"
	"log"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/feedstore"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

// Read the newest page of a feed, with its body.
func Example() {
	ctx, store := context.Background(), memory.New()
	if err := publishZones(ctx, store); err != nil {
		log.Fatal(err)
	}
	reader := feedstore.New(store, feedstore.Config{})
	defer reader.Close(ctx)
	zones, err := reader.Feed("zones")
	if err != nil {
		log.Fatal(err)
	}
	newest, err := zones.Newest(ctx)
	if err != nil {
		log.Fatal(err)
	}
	newest, body, _, err := zones.OpenNewest(ctx, newest, 0, -1)
	if err != nil {
		log.Fatal(err)
	}
	defer body.Close()
	size, err := io.Copy(io.Discard, body)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("page %d has %d entity, read whole: %t\n", newest.Number, newest.Entities, size == newest.Size)
	// Output: page 1 has 1 entity, read whole: true
}

func publishZones(ctx context.Context, store storage.Store) error {
	zones, err := producer.Open(ctx, store, "zones", producer.Config{})
	if err != nil {
		return err
	}
	defer zones.Close()
	_, err = zones.Publish(ctx, &feed.Entity{Operation: feed.Put, ContentType: "text/plain", ContentLocation: "Berlin", Body: []byte("+1")})
	return err
}
