package sqlsink_test

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"log"

	_ "modernc.org/sqlite"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/sink/sqlsink"
)

// This sink turns a feed into a log of changes in a custom table. Each change is in the table
// exactly once: the tests of this package kill the process between any two steps. Usually a
// [consumer.Job] applies the entities.
func Example() {
	ctx := context.Background()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1) // each connection would have its own in-memory database
	if _, err := db.Exec("CREATE TABLE changes (n INTEGER PRIMARY KEY, content_id TEXT, operation TEXT, key TEXT, body BLOB)"); err != nil {
		log.Fatal(err)
	}
	changes := sqlsink.New(db, "changes", insertChange)
	if _, err := changes.Position(ctx); err != nil {
		log.Fatal(err)
	}
	batch, err := changes.Begin(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, key := range []string{"Europe/Berlin", "Africa/Lagos"} {
		e := &feed.Entity{ContentID: "<" + key + "@example.com>", Operation: feed.Put, ContentLocation: feed.EncodeKey(key), Body: []byte("{}")}
		if err := batch.Apply(ctx, e); err != nil {
			log.Fatal(err)
		}
	}
	if err := batch.Commit(ctx, feed.Position{ContentID: "<Africa/Lagos@example.com>"}); err != nil {
		log.Fatal(err)
	}
	if err := changes.Close(); err != nil {
		log.Fatal(err)
	}
	var n int
	var position string
	if err := db.QueryRow("SELECT count(*), (SELECT position FROM feedctl_positions) FROM changes").Scan(&n, &position); err != nil {
		log.Fatal(err)
	}
	fmt.Println(n, position)
	// Output: 2 {"contentId":"\u003cAfrica/Lagos@example.com\u003e"}
}

func insertChange(ctx context.Context, tx *sql.Tx, e *feed.Entity) (err error) {
	body := e.Body
	if e.Stream != nil { // a body that the client does not hold in memory
		if body, err = io.ReadAll(e.Stream); err != nil {
			return err
		}
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO changes (content_id, operation, key, body) VALUES ($1, $2, $3, $4)",
		e.ContentID, string(e.Operation), e.Key(), body)
	return err
}
