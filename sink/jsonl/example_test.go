package jsonl_test

import (
	"context"
	"log"
	"os"
	"time"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/sink/jsonl"
)

// Usually a consumer.Job makes these calls.
func ExampleNewWriter() {
	ctx, lines := context.Background(), jsonl.NewWriter(os.Stdout)
	defer lines.Close()
	batch, err := lines.Begin(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if err := batch.Apply(ctx, &feed.Entity{
		ContentID:       "<1@example.com>",
		Operation:       feed.Put,
		LastModified:    time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
		ContentType:     "application/json",
		ContentLocation: "Bern",
		Body:            []byte(`{"country": "CH"}`),
	}); err != nil {
		log.Fatal(err)
	}
	if err := batch.Commit(ctx, feed.Position{ContentID: "<1@example.com>"}); err != nil {
		log.Fatal(err)
	}
	// Output: {"key":"Bern","operation":"PUT","contentId":"<1@example.com>","lastModified":"2026-03-01T12:00:00Z","contentType":"application/json","headers":{},"body":{"country":"CH"}}
}
