package sink_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/dir"
	"github.com/feedctl/feedctl/sink/jsonl"
	"github.com/feedctl/feedctl/sink/sqlite"
)

// A program lists the sinks that it supports, opens one, and applies a batch, which is
// usually left to a consumer.Job.
func Example() {
	registry := sink.Registry{
		"-":      jsonl.Stdout(os.Stdout),
		"jsonl":  jsonl.FromSpec,
		"dir":    dir.FromSpec,
		"sqlite": sqlite.FromSpec,
	}
	temp, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(temp)
	ctx := context.Background()
	for _, spec := range []string{"-", "dir:" + filepath.Join(temp, "zones"), "xml:zones"} {
		if err := fill(ctx, registry, spec); err != nil {
			fmt.Println(err)
		}
	}
	body, err := os.ReadFile(filepath.Join(temp, "zones", dir.FileName("Europe/Berlin")))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", body)
	// Output:
	// {"key":"Europe/Berlin","operation":"PUT","contentId":"<1@example.com>","lastModified":null,"contentType":"application/json","headers":{},"body":{"country":"DE"}}
	// open sink "xml:zones": invalid sink: unknown scheme "xml": known are -, dir, jsonl, sqlite
	// {"country": "DE"}
}

func fill(ctx context.Context, registry sink.Registry, spec string) error {
	into, err := registry.Open(ctx, spec)
	if err != nil {
		return err
	}
	defer into.Close()
	batch, err := into.Begin(ctx)
	if err != nil {
		return err
	}
	defer batch.Rollback(ctx)
	e := &feed.Entity{
		ContentID:       "<1@example.com>",
		Operation:       feed.Put,
		ContentType:     "application/json",
		ContentLocation: feed.EncodeKey("Europe/Berlin"),
		Body:            []byte(`{"country": "DE"}`),
	}
	if err := batch.Apply(ctx, e); err != nil {
		return err
	}
	return batch.Commit(ctx, feed.Position{ContentID: e.ContentID})
}
