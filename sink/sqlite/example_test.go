package sqlite_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	zombiezen "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/sink/sqlite"
)

func ExampleOpen() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "zones.db")
	ctx := context.Background()
	zones, err := sqlite.Open(ctx, path, "zones")
	if err != nil {
		log.Fatal(err)
	}
	defer zones.Close()
	batch, err := zones.Begin(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range []*feed.Entity{
		{Operation: feed.Put, ContentLocation: "Berlin", ContentType: "application/json", Body: []byte(`{"country":"DE"}`)},
		{Operation: feed.Patch, ContentLocation: "Berlin", ContentType: "application/merge-patch+json", Body: []byte(`{"offset":1}`)},
	} {
		if err := batch.Apply(ctx, e); err != nil {
			log.Fatal(err)
		}
	}
	if err := batch.Commit(ctx, feed.Position{ContentID: "<2@example.com>"}); err != nil {
		log.Fatal(err)
	}

	reader, err := zombiezen.OpenConn(path, zombiezen.OpenReadOnly)
	if err != nil {
		log.Fatal(err)
	}
	defer reader.Close()
	err = sqlitex.Execute(reader, "SELECT key, body FROM zones", &sqlitex.ExecOptions{ResultFunc: func(row *zombiezen.Stmt) error {
		fmt.Println(row.ColumnText(0), row.ColumnText(1))
		return nil
	}})
	if err != nil {
		log.Fatal(err)
	}
	// Output: Berlin {"country":"DE","offset":1}
}
