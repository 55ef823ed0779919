// Command write-your-own-sink consumes a feed into a sink of its own: a file with
// the number of entities of each media type. The numbers and the position in the
// feed are in the same file, which is replaced atomically, so every entity is counted
// exactly once, even if the program is killed.
//
//	$ go run ./examples/write-your-own-sink http://127.0.0.1:8080/feeds/pictures counts.json
//	$ cat counts.json
//	{"counts":{"image/jpeg":12,"image/png":3},"position":{...}}
package main

import (
	"context"
	"log"
	"os"
	"os/signal"

	"github.com/feedctl/feedctl/consumer"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: write-your-own-sink URL FILE")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, url, file string) error {
	client, err := consumer.New(consumer.Config{})
	if err != nil {
		return err
	}
	sink, err := openCounter(file)
	if err != nil {
		return err
	}
	job := consumer.Job{Client: client, URL: url, Sink: sink}
	_, err = job.Run(ctx)
	return err
}
