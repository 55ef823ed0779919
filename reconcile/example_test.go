package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/url"
	"os"
	"path/filepath"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/consumer/fromstore"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/reconcile"
	"github.com/feedctl/feedctl/sink"
	sinksqlite "github.com/feedctl/feedctl/sink/sqlite"
	"github.com/feedctl/feedctl/snapshot/fold"
	"github.com/feedctl/feedctl/storage/memory"
)

func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := example(context.Background(), filepath.Join(dir, "zones.db")); err != nil {
		log.Fatal(err)
	}
	// Output:
	// * Bern
	// written: 1 remaining: 0
}

func example(ctx context.Context, path string) error {
	// A feed, and a digest of its state.
	store := memory.New()
	zones, err := producer.Open(ctx, store, "zones", producer.Config{})
	if err != nil {
		return err
	}
	defer zones.Close()
	for _, key := range []string{"Bern", "Troll"} {
		if _, err := zones.Publish(ctx, &feed.Entity{Operation: feed.Put, ContentLocation: key, ContentType: "text/plain", Body: []byte("snow")}); err != nil {
			return err
		}
	}
	if _, err := fold.Digest(ctx, store, "zones", fold.Config{}); err != nil {
		return err
	}

	// A copy, changed by hand.
	source := fromstore.New(store, fromstore.Config{})
	defer source.Close()
	state, err := source.Digest(ctx, "zones")
	if err != nil {
		return err
	}
	client, err := consumer.New(consumer.Config{Source: source})
	if err != nil {
		return err
	}
	table, err := sinksqlite.Open(ctx, path, "zones")
	if err != nil {
		return err
	}
	defer table.Close()
	job := consumer.Job{Client: client, URL: source.Feed("zones"), Sink: table}
	if _, err := job.Run(ctx); err != nil {
		return err
	}
	hand, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		return err
	}
	err = sqlitex.ExecuteTransient(hand, "UPDATE zones SET body = 'sunny' WHERE key = 'Bern'", nil)
	if err = errors.Join(err, hand.Close()); err != nil {
		return err
	}

	report, err := reconcile.Run(ctx, reconcile.Config{
		Client: client,
		URL:    source.Feed("zones"),
		Digest: state,
		Open: func(ctx context.Context) (reconcile.Contents, error) {
			return sinksqlite.OpenContents(ctx, sink.Spec{Scheme: "sqlite", Path: path, Params: url.Values{"table": {"zones"}}})
		},
		Sink:  table, // repair it
		Found: func(l reconcile.Line) error { fmt.Printf("%c %s\n", l.Kind, l.Key); return nil },
	})
	if err != nil {
		return err
	}
	fmt.Println("written:", report.Repair.Written, "remaining:", report.Remaining())
	return nil
}
