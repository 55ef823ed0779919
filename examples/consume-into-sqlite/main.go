// Command consume-into-sqlite copies a feed into a table of an SQLite database,
// each entity exactly once: the position in the feed is committed in the same
// transaction as the rows.
//
//	$ feedctl serve &
//	serving file:./feedctl-data on http://127.0.0.1:8080
//	$ go run ./examples/consume-into-sqlite http://127.0.0.1:8080/feeds/cities cities.db
//	3 entities, 30 bytes
//	$ go run ./examples/consume-into-sqlite http://127.0.0.1:8080/feeds/cities cities.db
//	0 entities, 0 bytes
//	$ sqlite3 cities.db 'SELECT key, body FROM cities'
//	Bern|{"people":134000}
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
	"github.com/feedctl/feedctl/sink/sqlite"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: consume-into-sqlite URL FILE")
	}
	// After Ctrl-C, the entities that were applied are committed; the next run continues after
	// them.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out io.Writer, url, file string) (err error) {
	table, err := sqlite.Open(ctx, file, "cities")
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
	_, err = fmt.Fprintf(out, "%d entities, %d bytes\n", stats.Entities, stats.Bytes)
	return err
}
