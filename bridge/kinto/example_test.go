package kinto_test

import (
	"context"
	"errors"

	bridge "github.com/feedctl/feedctl/bridge/kinto"
	"github.com/feedctl/feedctl/kinto"
	"github.com/feedctl/feedctl/storage"
)

// A bridge publishes what changed in a collection since its last run.
func Example() {
	run := func(ctx context.Context, store storage.Store) (published int64, err error) {
		source, err := kinto.Open(kinto.Config{URL: "https://kinto.example.com/v1/buckets/dns/collections/zones"})
		if err != nil {
			return 0, err
		}
		b, err := bridge.Open(ctx, bridge.Config{Source: source, Store: store, Feed: "zones", Index: "zones.index"})
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, b.Close()) }()
		report, err := b.Run(ctx)
		return report.Published, err
	}
	_ = run // with a server
}
