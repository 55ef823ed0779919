package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/locate"
	"github.com/feedctl/feedctl/internal/metrics"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/observe"
	"github.com/feedctl/feedctl/storage/stores"
)

// s3Memory limits the buffers of the S3 driver, in bytes. Pages of the usual size are still read
// whole, and the process stays small; see memoryLimit.
const s3Memory = 24 << 20

// An access is how a command uses a store.
type access struct {
	create bool // create the store if it does not exist
	follow bool // wait for its server until a signal
}

func (a *app) parseStored(arg string) (locate.Stored, error) { return locate.Parse(arg, a.store) }

// openNamed opens the existing store of an argument, NAME or STORE#NAME.
func (a *app) openNamed(ctx context.Context, arg string) (store storage.Store, name string, err error) {
	at, err := a.parseStored(arg)
	if err != nil {
		return nil, "", err
	}
	store, err = a.openStoreAt(ctx, at.Store, access{})
	return store, at.Name, err
}

// openStoreAt opens a store by its URL.
func (a *app) openStoreAt(ctx context.Context, rawURL string, want access) (storage.Store, error) {
	if err := locate.CheckStore(rawURL); err != nil {
		return nil, err
	}
	store, err := locate.Wait(ctx, a.log, locate.ForStore(rawURL, want.follow), func() (storage.Store, error) {
		return stores.Open(ctx, rawURL, stores.Options{Create: want.create, Memory: s3Memory})
	})
	if err != nil {
		return nil, hintInit(err, rawURL)
	}
	a.atEnd(store.Close, "store")
	if a.log.Enabled(ctx, slog.LevelDebug) {
		store = observe.Log(store, a.log)
	}
	if counter, ok := storage.As[storage.Counter](store); ok {
		a.counters = append(a.counters, counter)
	} else if a.verbose {
		operations := new(metrics.Tally)
		a.counters = append(a.counters, operations)
		store = observe.Wrap(store, func(_ context.Context, o observe.Operation) { operations.Add(o.Name) })
	}
	return store, nil
}

// hintInit adds the command that creates a store to the error of a store that does not exist.
func hintInit(err error, rawURL string) error {
	if !errors.Is(err, storage.ErrNoStore) {
		return err
	}
	return exit.WithHint(err, fmt.Sprintf("another URL; or, to make an empty store there, \"feedctl init %s\"", sink.Redact(rawURL)))
}
