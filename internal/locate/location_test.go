package locate

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

// A stuck store does not respond.
type stuck struct{ storage.Store }

func (stuck) Stat(ctx context.Context, _ string) (storage.Info, error) {
	<-ctx.Done()
	return storage.Info{}, context.Cause(ctx)
}

// TestCloseStuckStore: after a signal, Close does not wait for an unresponsive store.
func TestCloseStuckStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := stuck{memory.New()}
		at := Stored{"memory:", "zones"}.Open(store, layout.FeedPath, consumer.Config{})
		ctx, signal := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, signal)
		if _, err := at.source.Get(ctx, consumer.Request{URL: at.URL}); err == nil {
			t.Error("Get from an unresponsive store succeeded")
		}
		before := time.Now()
		if err := errors.Join(at.Close(), store.Close()); err != nil {
			t.Error(err)
		}
		if took := time.Since(before); took > 0 {
			t.Errorf("closing took %v", took)
		}
	})
}
