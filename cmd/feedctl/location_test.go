package main

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

// A stuck store answers no look.
type stuck struct{ storage.Store }

func (stuck) Stat(ctx context.Context, _ string) (storage.Info, error) {
	<-ctx.Done()
	return storage.Info{}, context.Cause(ctx)
}

// After a signal nobody waits for a store that does not answer.
func TestLocationOfStuckStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := stuck{memory.New()}
		web, err := server.New(store, server.Config{PublicURL: localOrigin})
		if err != nil {
			t.Fatal(err)
		}
		at := &location{store: store, server: web}
		ctx, signal := context.WithCancel(t.Context())
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, localOrigin+layout.FeedPath("zones"), nil)
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Second, signal)
		if response, err := newLocalTransport(web, store).RoundTrip(request); err == nil {
			response.Body.Close()
			t.Errorf("status %s", response.Status)
		}
		before := time.Now()
		if err := at.close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(before); took > 0 {
			t.Errorf("closing took %v", took)
		}
	})
}
