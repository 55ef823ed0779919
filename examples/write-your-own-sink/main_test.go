package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage/memory"
)

var _ consumer.Batch = (*batch)(nil)

func entity(contentType string) *feed.Entity {
	return &feed.Entity{Operation: feed.Put, ContentType: contentType, Body: []byte("picture")}
}

func Example() {
	ctx := context.Background()
	store := memory.New()
	pictures, err := producer.Open(ctx, store, "pictures", producer.Config{})
	if err != nil {
		log.Fatal(err)
	}
	handler, err := server.New(store, server.Config{})
	if err != nil {
		log.Fatal(err)
	}
	web := httptest.NewServer(handler)
	defer web.Close()
	dir, err := os.MkdirTemp("", "write-your-own-sink-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "counts.json")

	for range 3 {
		if _, err := pictures.Publish(ctx, entity("image/png"), entity("image/jpeg"), entity("image/png")); err != nil {
			log.Fatal(err)
		}
		// Each run counts only new entities.
		if err := run(ctx, web.URL+"/feeds/pictures", file); err != nil {
			log.Fatal(err)
		}
	}
	data, err := os.ReadFile(file)
	if err != nil {
		log.Fatal(err)
	}
	var s state
	if err := json.Unmarshal(data, &s); err != nil {
		log.Fatal(err)
	}
	fmt.Println(s.Counts)
	// Output:
	// map[image/jpeg:3 image/png:6]
}

// TestRollback: an uncommitted batch has no effect.
func TestRollback(t *testing.T) {
	ctx := t.Context()
	file := filepath.Join(t.TempDir(), "counts.json")
	open := func() *counter {
		c, err := openCounter(file)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	apply := func(c *counter) consumer.Batch {
		b, err := c.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Apply(ctx, entity("image/png")); err != nil {
			t.Fatal(err)
		}
		return b
	}
	c := open()
	if err := apply(c).Commit(ctx, feed.Position{ContentID: "1"}); err != nil {
		t.Fatal(err)
	}
	apply(c) // never committed, as if the process had been killed
	c = open()
	if err := apply(c).Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	if err := apply(c).Commit(ctx, feed.Position{ContentID: "2"}); err != nil {
		t.Fatal(err)
	}
	at, err := open().Position(ctx)
	if err != nil || at.ContentID != "2" || open().state.Counts["image/png"] != 2 {
		t.Errorf("position %v, %v, counts %v", at, err, open().state.Counts)
	}
}
