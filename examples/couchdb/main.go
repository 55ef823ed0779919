// Command couchdb copies a CouchDB database into another through a feed: the
// bridge publishes the changes since the last run, and the sink applies the new entities
// of the feed. Revisions, conflicts, tombstones and attachments are preserved.
//
//	$ go run ./examples/couchdb http://127.0.0.1:5984/zones http://127.0.0.1:5984/copy zones-data
//	published 3, applied 3
//	$ go run ./examples/couchdb http://127.0.0.1:5984/zones http://127.0.0.1:5984/copy zones-data
//	published 0, applied 0
//
// "feedctl bridge couchdb", "feedctl serve" and "feedctl consume --into couchdb:URL" do the same in
// three processes, which may be on three machines.
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

	bridge "github.com/feedctl/feedctl/bridge/couchdb"
	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/consumer/fromstore"
	"github.com/feedctl/feedctl/couchdb"
	sink "github.com/feedctl/feedctl/sink/couchdb"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/file"
)

const name = "copy"

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: couchdb SOURCE TARGET DIRECTORY")
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
	db, err := couchdb.Open(couchdb.Config{URL: source})
	if err != nil {
		return 0, err
	}
	b, err := bridge.Open(ctx, bridge.Config{
		Source: db, Store: store, Feed: name, Index: index,
		// All of these are necessary for a copy that is equal to the source.
		Options: bridge.Options{Revs: true, Conflicts: true, DesignDocs: true, Attachments: bridge.Multipart},
	})
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
	db, err := sink.Open(ctx, couchdb.Config{URL: target}, "")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	job := consumer.Job{Client: client, URL: source.Feed(name), Sink: db}
	stats, err := job.Run(ctx)
	return stats.Entities, err
}
