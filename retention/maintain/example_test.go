package maintain_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/retention"
	"github.com/feedctl/feedctl/retention/maintain"
	"github.com/feedctl/feedctl/snapshot/fold"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

func ExampleFeed() {
	ctx, store := context.Background(), memory.New()
	zones, err := producer.Open(ctx, store, "zones", producer.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer zones.Close()
	if _, err := zones.Publish(ctx, &feed.Entity{Operation: feed.Put, ContentLocation: "Berlin", ContentType: "text/plain", Body: []byte("DE")}); err != nil {
		log.Fatal(err)
	}
	if _, err := retention.Change(ctx, store, "zones", func(p *retention.Policy) error {
		*p = retention.Policy{KeepAge: 30 * 24 * time.Hour, SnapshotEvery: 24 * time.Hour, KeepSnapshots: 3}
		return nil
	}); err != nil {
		log.Fatal(err)
	}

	report, err := maintain.Feed(ctx, store, "zones", maintain.Config{
		Fold: func(ctx context.Context, store storage.Store, name, keyPointer string) error {
			_, err := fold.Feed(ctx, store, name, fold.Config{KeyPointer: keyPointer})
			return err
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("snapshot made:", report.Snapshot, "- pages pruned:", report.Pages)
	// Output: snapshot made: true - pages pruned: 0
}
