// Command consume-into-postgres copies a feed into typed columns of a table in
// PostgreSQL, each entity exactly once. Entities that do not fit the columns go into quarantine.
//
//	$ createdb atlas
//	$ feedctl serve &
//	serving file:./feedctl-data on http://127.0.0.1:8080
//	$ go run ./examples/consume-into-postgres http://127.0.0.1:8080/feeds/cities postgres://localhost/atlas
//	3 entities, 1 of them into quarantine
//	$ psql atlas -c 'TABLE cities' -c 'SELECT key, reason FROM feedctl_quarantine'
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/sink/postgres"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: consume-into-postgres URL DATABASE")
	}
	// After Ctrl-C, the entities that were applied are committed; the next run continues after
	// them.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out io.Writer, url, database string) (err error) {
	table, err := postgres.Open(ctx, database, postgres.Options{
		Table:   "cities",
		Columns: "name=@key:text,people=/people:int not null",
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, table.Close()) }()
	client, err := consumer.New(consumer.Config{})
	if err != nil {
		return err
	}
	job := consumer.Job{Client: client, URL: url, Sink: table}
	stats, err := job.Run(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%d entities, %d of them into quarantine\n", stats.Entities, stats.Rejected.Quarantined)
	return err
}
