package dir_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/sink/dir"
)

// Usually a consumer.Job makes these calls.
func ExampleOpen() {
	path, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(path)
	zones, err := dir.Open(path)
	if err != nil {
		log.Fatal(err)
	}
	defer zones.Close()
	ctx := context.Background()
	batch, err := zones.Begin(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if err := batch.Apply(ctx, &feed.Entity{Operation: feed.Put, ContentLocation: "Bern", ContentType: "text/plain", Body: []byte("CH")}); err != nil {
		log.Fatal(err)
	}
	if err := batch.Commit(ctx, feed.Position{ContentID: "<1@example.com>"}); err != nil {
		log.Fatal(err)
	}

	body, err := os.ReadFile(filepath.Join(path, dir.FileName("Bern")))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", body)
	// Output: CH
}
