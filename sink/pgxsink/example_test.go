package pgxsink_test

import (
	"context"
	"io"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/sink/pgxsink"
)

// This sink turns a feed into a log of changes in a custom table. The tests of this package
// kill the process between any two steps: each change is in the table once.
func Example() {
	run := func(ctx context.Context, pool *pgxpool.Pool, client *consumer.Client) error {
		changes := pgxsink.New(pool, "changes", insertChange)
		defer changes.Close()
		job := consumer.Job{Client: client, URL: "https://data.example.org/feeds/zones", Sink: changes}
		_, err := job.Run(ctx)
		return err
	}
	_ = run // with a database
}

func insertChange(ctx context.Context, tx pgx.Tx, e *feed.Entity) (err error) {
	body := e.Body
	if e.Stream != nil { // a body that the client does not hold in memory
		if body, err = io.ReadAll(e.Stream); err != nil {
			return err
		}
	}
	_, err = tx.Exec(ctx, "INSERT INTO changes (content_id, operation, key, body) VALUES ($1, $2, $3, $4)",
		e.ContentID, string(e.Operation), e.Key(), body)
	return err
}
