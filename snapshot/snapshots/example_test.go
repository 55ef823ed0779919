package snapshots_test

import (
	"context"
	"fmt"
	"log"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/snapshot/snapshots"
	"github.com/feedctl/feedctl/storage/memory"
)

func ExampleWrite() {
	ctx, store := context.Background(), memory.New()
	zones := func(yield func(*feed.Entity, error) bool) {
		for _, key := range []string{"Berlin", "Lisbon"} {
			e := &feed.Entity{ContentLocation: feed.EncodeKey(key), ContentType: "application/json", Body: []byte(`{}`)}
			if !yield(e, nil) {
				return
			}
		}
	}
	written, err := snapshots.Write(ctx, store, "zones", zones, snapshots.Config{})
	if err != nil {
		log.Fatal(err)
	}
	id, err := snapshots.Newest(ctx, store, "zones")
	if err != nil {
		log.Fatal(err)
	}
	index, err := snapshots.Read(ctx, store, "zones", id)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(id == written.ID, index.Entities, "entities on", index.PageCount, "page")
	// Output: true 2 entities on 1 page
}
