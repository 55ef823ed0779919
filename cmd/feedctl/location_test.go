package main

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/consumer/fromstore"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

// A stuck store answers no look.
type stuck struct{ storage.Store }

func (stuck) Stat(ctx context.Context, _ string) (storage.Info, error) {
	<-ctx.Done()
	return storage.Info{}, context.Cause(ctx)
}

// After a signal no one waits for a store that does not answer.
func TestLocationOfStuckStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := stuck{memory.New()}
		at := &location{store: store, source: fromstore.New(store, fromstore.Config{})}
		ctx, signal := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, signal)
		if _, err := at.source.Get(ctx, consumer.Request{URL: at.source.Feed("zones")}); err == nil {
			t.Error("a store that does not answer has a page")
		}
		before := time.Now()
		at.source.Close()
		if err := at.store.Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(before); took > 0 {
			t.Errorf("closing took %v", took)
		}
	})
}
