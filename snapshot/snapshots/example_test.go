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
	index, err := snapshots.Write(ctx, store, "zones", func(yield func(*feed.Entity, error) bool) {
		for _, name := range []string{"Berlin", "Kolkata"} {
			if !yield(&feed.Entity{ContentType: "text/plain", ContentLocation: name, Body: []byte("zone")}, nil) {
				return
			}
		}
	}, snapshots.Config{})
	if err != nil {
		log.Fatal(err)
	}
	newest, err := snapshots.Newest(ctx, store, "zones")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(index.Pages), "page,", newest == index.ID)
	// Output: 1 page, true
}
