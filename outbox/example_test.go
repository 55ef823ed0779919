package outbox_test

import (
	"context"

	"github.com/feedctl/feedctl/outbox"
	"github.com/feedctl/feedctl/storage"
)

// This example runs a runner that moves the events of one feed to a store until ctx ends.
func Example() {
	run := func(ctx context.Context, url string, store storage.Store) error {
		db, err := outbox.Create(ctx, url)
		if err != nil {
			return err
		}
		defer db.Close()
		runner, err := db.NewRunner(outbox.Config{Feed: "orders", Store: store})
		if err != nil {
			return err
		}
		return runner.Run(ctx)
	}
	_ = run // with a database
}
