// Command publish-and-serve publishes a feed and serves it, in one process.
//
//	$ go run ./examples/publish-and-serve weather-data &
//	serving http://127.0.0.1:8080/feeds/weather
//	$ feedctl tail http://127.0.0.1:8080/feeds/weather --from beginning --follow=false
//	2026-03-01T12:00:00Z  PUT     Bern  <Bern-1@example>  application/json  18 B  {"temperature":11}
//	2026-03-01T12:00:00Z  PUT     Lima  <Lima-1@example>  application/json  18 B  {"temperature":24}
//	2026-03-01T12:00:00Z  DELETE  Bern  <Bern-2@example>  application/json  0 B  -
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage/file"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: publish-and-serve DIRECTORY")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	listener, err := net.Listen("tcp", "127.0.0.1:8080")
	if err != nil {
		log.Fatal(err)
	}
	if err := run(ctx, os.Stdout, os.Args[1], listener); err != nil {
		log.Fatal(err)
	}
}

// run publishes to a feed in a directory and serves it until ctx ends.
func run(ctx context.Context, out io.Writer, directory string, listener net.Listener) error {
	store, err := file.New(directory)
	if err != nil {
		return err
	}
	defer store.Close()
	weather, err := producer.Open(ctx, store, "weather", producer.Config{})
	if err != nil {
		return err
	}
	defer weather.Close()

	// A Content-ID names the event. Publishing it again has no effect, so after a
	// crash the program can start over.
	_, err = weather.Publish(ctx,
		&feed.Entity{
			ContentID:       "<Bern-1@example>",
			Operation:       feed.Put,
			ContentType:     "application/json",
			ContentLocation: feed.EncodeKey("Bern"),
			Body:            []byte(`{"temperature":11}`),
		},
		&feed.Entity{
			ContentID:       "<Lima-1@example>",
			Operation:       feed.Put,
			ContentType:     "application/json",
			ContentLocation: feed.EncodeKey("Lima"),
			Body:            []byte(`{"temperature":24}`),
		},
		&feed.Entity{
			ContentID:       "<Bern-2@example>",
			Operation:       feed.Delete,
			ContentType:     "application/json",
			ContentLocation: feed.EncodeKey("Bern"),
		},
	)
	if err != nil {
		return err
	}

	handler, err := server.New(store, server.Config{})
	if err != nil {
		return err
	}
	web := server.NewHTTPServer(handler, slog.Default())
	context.AfterFunc(ctx, func() {
		// Close the handler first, which ends the requests that wait for new entities.
		_ = handler.Close(context.WithoutCancel(ctx))
		_ = web.Close()
	})
	fmt.Fprintf(out, "serving http://%s/feeds/weather\n", listener.Addr())
	if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
