// Command kinto copies a Kinto collection into another through a feed: the bridge
// publishes the changes since the last run, and the sink applies the new entities of the
// feed. The copy has the same records with stamps of its own; both collections may be on one
// server.
//
//	$ go run ./examples/kinto http://USER:PASSWORD@127.0.0.1:8888/v1/buckets/dns/collections/zones \
//		http://USER:PASSWORD@127.0.0.1:8888/v1/buckets/dns/collections/copy zones-data
//	published 3, applied 3
//
// A second run copies what has changed since. "feedctl bridge kinto", "feedctl serve" and "feedctl
// consume --into kinto:URL" do the same in three processes, which may be on three machines.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"path/filepath"

	bridge "github.com/feedctl/feedctl/bridge/kinto"
	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/consumer/fromstore"
	"github.com/feedctl/feedctl/kinto"
	sink "github.com/feedctl/feedctl/sink/kinto"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/file"
)

const name = "copy"

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: kinto SOURCE TARGET DIRECTORY")
	}
	// The program can be stopped with Ctrl-C at any time: the next run continues where this one
	// ended.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, os.Args[1], os.Args[2], os.Args[3]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out io.Writer, source, target, directory string) error {
	store, err := file.New(filepath.Join(directory, "store"))
	if err != nil {
		return err
	}
	defer store.Close()
	published, err := publish(ctx, source, store, filepath.Join(directory, "index.db"))
	if err != nil {
		return err
	}
	applied, err := apply(ctx, store, target)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "published %d, applied %d\n", published, applied)
	return err
}

// publish adds the changes of the source to the feed. The feed also holds the position in the
// source, and the index can be rebuilt from the feed.
func publish(ctx context.Context, source string, store storage.Store, index string) (n int64, err error) {
	collection, err := kinto.Open(kinto.Config{URL: source})
	if err != nil {
		return 0, err
	}
	b, err := bridge.Open(ctx, bridge.Config{Source: collection, Store: store, Feed: name, Index: index})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	report, err := b.Run(ctx)
	return report.Published, err
}

// apply writes the new entities of the feed to the target, which also keeps the position in
// the feed.
func apply(ctx context.Context, store storage.Store, target string) (n int64, err error) {
	source := fromstore.New(store, fromstore.Config{})
	defer source.Close()
	client, err := consumer.New(consumer.Config{Source: source})
	if err != nil {
		return 0, err
	}
	copied, err := sink.Open(ctx, kinto.Config{URL: target}, sink.DefaultName)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, copied.Close()) }()
	job := consumer.Job{Client: client, URL: source.Feed(name), Sink: copied}
	stats, err := job.Run(ctx)
	return stats.Entities, err
}
