// Command snapshot-then-feed shows how a new consumer begins with a snapshot and
// continues in the feed where the snapshot ends. It prints what it reads, and the
// position at which another run would continue.
//
//	$ feedctl snapshot from-feed cities
//	made snapshot cities/20260301T120000.000Z-q7a2mzkd of 2 entities on 1 page
//	$ echo '{"name":"Quito","people":2}' | feedctl publish cities --key /name
//	published 1 entity to cities, 0 duplicates
//	$ feedctl serve &
//	serving file:./feedctl-data on http://127.0.0.1:8080
//	$ go run ./examples/snapshot-then-feed http://127.0.0.1:8080 cities
//	snapshot: Bern
//	snapshot: Lima
//	feed: PUT Quito
//	continue after <TKWWE5QWGTWSUL3EJX3LJTWS2A-1@cities> of 2026-03-01T12:00:05Z
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: snapshot-then-feed SERVER NAME")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	at, err := run(ctx, os.Stdout, os.Args[1], os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("continue after %s of %s\n", at.ContentID, at.LastModified.Format(time.RFC3339))
}

// run returns the position after the last entity. A program that stores the position together with
// its data, and continues with consumer.After(position), gets each entity exactly once.
func run(ctx context.Context, out io.Writer, server, name string) (at feed.Position, err error) {
	client, err := consumer.New(consumer.Config{})
	if err != nil {
		return at, err
	}
	start := consumer.FromSnapshot(server + "/snapshots/" + name)
	for e, err := range client.Entities(ctx, server+"/feeds/"+name, start) {
		if err != nil {
			return at, err
		}
		at = e.Position()
		if at.Snapshot != nil {
			fmt.Fprintln(out, "snapshot:", e.Key())
		} else {
			fmt.Fprintln(out, "feed:", e.Operation, e.Key())
		}
	}
	return at, nil
}
