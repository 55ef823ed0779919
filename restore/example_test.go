package restore_test

import (
	"context"
	"fmt"
	"log"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/consumer/fromstore"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/restore"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/sqlite"
	"github.com/feedctl/feedctl/storage/memory"
)

func Example() {
	ctx, store := context.Background(), memory.New()
	day := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	zones, err := producer.Open(ctx, store, "zones", producer.Config{Now: func() time.Time { return day }, MaxClockSkew: time.Hour})
	if err != nil {
		log.Fatal(err)
	}
	defer zones.Close()
	put := func(key string) {
		e := &feed.Entity{Operation: feed.Put, ContentLocation: key, ContentType: "text/plain"}
		if _, err := zones.Publish(ctx, e); err != nil {
			log.Fatal(err)
		}
	}
	put("Bern")
	before := day
	day = day.Add(24 * time.Hour)
	put("Troll")

	source := fromstore.New(store, fromstore.Config{})
	defer source.Close()
	client, err := consumer.New(consumer.Config{Source: source})
	if err != nil {
		log.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "restore-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "zones.db")
	to, err := sqlite.Open(ctx, file, "zones")
	if err != nil {
		log.Fatal(err)
	}
	defer to.Close()

	c := restore.Config{
		Client: client, URL: source.Feed("zones"), Snapshots: source.Snapshot("zones"), At: consumer.UntilTime(before), Sink: to,
	}
	report, err := restore.Run(ctx, c)
	if err != nil {
		log.Fatal(err)
	}
	checked, err := restore.Check(ctx, c, restore.Target{Open: func(ctx context.Context) (restore.Contents, error) {
		return sqlite.OpenContents(ctx, sink.Spec{Path: file, Params: url.Values{"table": {"zones"}}})
	}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Entities, "entity;", checked.Keys, "key,", checked.Count(), "differences")
	// Output: 1 entity; 1 key, 0 differences
}
