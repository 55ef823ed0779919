package sinks_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/sink/sinks"
)

// A sink is usually filled by a consumer.Job.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	name := "jsonl:" + dir + "/zones.jsonl" // or sqlite:FILE, or postgres://host/database?table=zones
	into, err := sinks.Open(ctx, name, sinks.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer into.Close()
	batch, err := into.Begin(ctx)
	if err == nil {
		err = batch.Apply(ctx, &feed.Entity{ContentID: "<1@example.org>", ContentType: "text/plain", Body: []byte("a zone")})
	}
	if err == nil {
		err = batch.Commit(ctx, feed.Position{ContentID: "<1@example.org>"})
	}
	if err != nil {
		log.Fatal(err)
	}
	standings, err := sinks.Standings(ctx, name, sinks.Options{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(standings[0].Position.ContentID)
	// Output: <1@example.org>
}
