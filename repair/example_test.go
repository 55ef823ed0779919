package repair_test

import (
	"context"
	"fmt"
	"log"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/repair"
	"github.com/feedctl/feedctl/storage/memory"
)

// A page in the middle of a feed is lost. Without Config.Apply the store is only examined.
func ExampleFeed() {
	ctx, store := context.Background(), memory.New()
	zones, err := producer.Open(ctx, store, "zones", producer.Config{MaxPageEntities: 1})
	if err != nil {
		log.Fatal(err)
	}
	defer zones.Close()
	for _, zone := range []string{"Bern", "Lima", "Oslo"} {
		if _, err := zones.Publish(ctx, &feed.Entity{Operation: feed.Put, ContentLocation: zone, ContentType: "text/plain"}); err != nil {
			log.Fatal(err)
		}
	}
	if err := store.Delete(ctx, layout.FeedPage("zones", 2)); err != nil {
		log.Fatal(err)
	}

	report, err := repair.Feed(ctx, store, "zones", repair.Config{})
	if err != nil {
		log.Fatal(err)
	}
	for _, step := range report.Steps {
		fmt.Println(step.Action, "page", step.Page)
	}
	fmt.Println("the feed would end with page", report.Newest)
	// Output:
	// move-aside page 3
	// the feed would end with page 1
}
