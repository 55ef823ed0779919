package main

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage/memory"
)

func Example() {
	ctx := context.Background()
	store := memory.New()
	cities, err := producer.Open(ctx, store, "cities", producer.Config{})
	if err != nil {
		log.Fatal(err)
	}
	handler, err := server.New(store, server.Config{})
	if err != nil {
		log.Fatal(err)
	}
	web := httptest.NewServer(handler)
	defer web.Close()
	dir, err := os.MkdirTemp("", "consume-into-sqlite-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "cities.db")

	publish := func(operation feed.Operation, key, body string) {
		e := &feed.Entity{Operation: operation, ContentType: "application/json", ContentLocation: feed.EncodeKey(key), Body: []byte(body)}
		if _, err := cities.Publish(ctx, e); err != nil {
			log.Fatal(err)
		}
	}
	consume := func() {
		if err := run(ctx, os.Stdout, web.URL+"/feeds/cities", file); err != nil {
			log.Fatal(err)
		}
	}
	publish(feed.Put, "Bern", `{"people":1}`)
	publish(feed.Put, "Lima", `{"people":2}`)
	consume()
	publish(feed.Put, "Bern", `{"people":134000}`)
	publish(feed.Delete, "Lima", "")
	consume()
	consume()

	db, err := sqlite.OpenConn(file, sqlite.OpenReadOnly)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	err = sqlitex.Execute(db, "SELECT key, body FROM cities", &sqlitex.ExecOptions{ResultFunc: func(row *sqlite.Stmt) error {
		fmt.Println(row.ColumnText(0), row.ColumnText(1))
		return nil
	}})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// 2 entities, 24 bytes
	// 2 entities, 17 bytes
	// 0 entities, 0 bytes
	// Bern {"people":134000}
}
