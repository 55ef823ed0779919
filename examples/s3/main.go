// Command s3 publishes a feed to a bucket and reads it from there without a server:
// the feed with the credentials that the AWS SDK finds, and a snapshot of it with a
// presigned URL.
//
//	$ go run ./examples/s3 's3://my-bucket/weather?region=eu-central-1'
//	feed: PUT Bern {"temperature":11}
//	feed: PUT Lima {"temperature":24}
//	feed: DELETE Bern
//	snapshot: Lima {"temperature":24}
package main

import (
	"context"
	"fmt"
	"io"
	"iter"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/consumer/fromstore"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/snapshot/snapshots"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/s3"
)

const name = "weather"

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: s3 's3://BUCKET/PREFIX?region=REGION'")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out io.Writer, storeURL string) error {
	store, err := storage.Registry{"s3": s3.Open}.Open(ctx, storeURL)
	if err != nil {
		return err
	}
	defer store.Close()
	if err := publish(ctx, store); err != nil {
		return err
	}
	if err := readFeed(ctx, out, store); err != nil {
		return err
	}
	index, err := share(ctx, store)
	if err != nil {
		return err
	}
	return readSnapshot(ctx, out, index)
}

// publish adds entities to the feed. Other machines may do so at the same time. Entities that the
// feed already has are not added again.
func publish(ctx context.Context, store storage.Store) error {
	weather, err := producer.Open(ctx, store, name, producer.Config{})
	if err != nil {
		return err
	}
	defer weather.Close()
	_, err = weather.Publish(ctx,
		entity("<Bern-1@example>", feed.Put, "Bern", `{"temperature":11}`),
		entity("<Lima-1@example>", feed.Put, "Lima", `{"temperature":24}`),
		entity("<Bern-2@example>", feed.Delete, "Bern", ""),
	)
	return err
}

func entity(id string, operation feed.Operation, key, body string) *feed.Entity {
	return &feed.Entity{
		ContentID:       id,
		Operation:       operation,
		ContentType:     "application/json",
		ContentLocation: feed.EncodeKey(key),
		Body:            []byte(body),
	}
}

// readFeed reads the feed from the store.
func readFeed(ctx context.Context, out io.Writer, store storage.Store) error {
	source := fromstore.New(store, fromstore.Config{})
	defer source.Close()
	client, err := consumer.New(consumer.Config{Source: source})
	if err != nil {
		return err
	}
	for e, err := range client.Entities(ctx, source.Feed(name), consumer.Beginning()) {
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "feed: %s %s %s\n", e.Operation, e.Key(), e.Body)
	}
	return nil
}

// share writes a snapshot that anyone with the returned URL can read for an hour. For a public
// snapshot, set SnapshotConfig.PublicURL instead.
func share(ctx context.Context, store storage.Store) (indexURL string, err error) {
	const valid = time.Hour
	var state iter.Seq2[*feed.Entity, error] = func(yield func(*feed.Entity, error) bool) {
		yield(entity("<Lima-1@example>", feed.Put, "Lima", `{"temperature":24}`), nil)
	}
	index, err := snapshots.Write(ctx, store, name, state, snapshots.Config{Presign: valid})
	if err != nil {
		return "", err
	}
	presigner, ok := storage.As[storage.Presigner](store)
	if !ok {
		return "", snapshots.ErrPresign
	}
	return presigner.Presign(ctx, layout.SnapshotIndex(name, index.ID), valid)
}

// readSnapshot reads a snapshot over plain HTTP. It does not use the API of S3.
func readSnapshot(ctx context.Context, out io.Writer, indexURL string) error {
	client, err := consumer.New(consumer.Config{})
	if err != nil {
		return err
	}
	for e, err := range client.Snapshot(ctx, indexURL, feed.SnapshotPosition{}) {
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "snapshot: %s %s\n", e.Key(), e.Body)
	}
	return nil
}
