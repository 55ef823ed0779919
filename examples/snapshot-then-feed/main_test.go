package main

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"
	"os"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/snapshot/fold"
	"github.com/feedctl/feedctl/storage/memory"
)

func Example() {
	ctx := context.Background()
	store := memory.New()
	cities, err := producer.Open(ctx, store, "cities", producer.Config{})
	if err != nil {
		log.Fatal(err)
	}
	handler, err := server.New(store, server.Config{})
	if err != nil {
		log.Fatal(err)
	}
	web := httptest.NewServer(handler)
	defer web.Close()

	put := func(key string) *feed.Entity {
		return &feed.Entity{
			ContentID: "<" + key + "@example>", Operation: feed.Put, ContentType: "text/plain",
			ContentLocation: feed.EncodeKey(key), Body: []byte("a city"),
		}
	}
	if _, err := cities.Publish(ctx, put("Lima"), put("Bern")); err != nil {
		log.Fatal(err)
	}
	if _, err := fold.Feed(ctx, store, "cities", fold.Config{}); err != nil {
		log.Fatal(err)
	}
	if _, err := cities.Publish(ctx, put("Quito")); err != nil {
		log.Fatal(err)
	}
	at, err := run(ctx, os.Stdout, web.URL, "cities")
	fmt.Println("continue after", at.ContentID, err)
	// Output:
	// snapshot: Bern
	// snapshot: Lima
	// feed: PUT Quito
	// continue after <Quito@example> <nil>
}
