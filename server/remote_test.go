package server_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/internal/s3test"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/fault"
	"github.com/feedctl/feedctl/storage/file"
	"github.com/feedctl/feedctl/storage/memory"
	"github.com/feedctl/feedctl/storage/observe"
	"github.com/feedctl/feedctl/storage/postgres"
	"github.com/feedctl/feedctl/storage/s3"
)

// TestRemoteStoresReadAhead: pages of any remote store are read before a client requests
// them.
func TestRemoteStoresReadAhead(t *testing.T) {
	registry := storage.Registry{"s3": s3.Open, "postgres": postgres.Create, "file": file.Create}
	for name, tt := range map[string]struct {
		url   func(*testing.T) string
		ahead bool
	}{
		"s3":       {func(t *testing.T) string { return s3test.Start(t).URL("far") }, true},
		"postgres": {func(t *testing.T) string { return pgtest.Start(t).URL("far") }, true},
		"file":     {func(t *testing.T) string { return "file:" + t.TempDir() }, false},
	} {
		t.Run(name, func(t *testing.T) {
			inner, err := registry.Open(t.Context(), tt.url(t))
			check(t, err)
			t.Cleanup(func() { inner.Close() })
			fill(t, inner, "f", 8, 1000)
			var mu sync.Mutex
			ahead, asked := make(chan struct{}), make(map[string]bool)
			store := observe.Wrap(inner, func(_ context.Context, o observe.Operation) {
				mu.Lock()
				defer mu.Unlock()
				if o.Name != "get" || !strings.Contains(o.Key, "/pages/") || asked[o.Key] {
					return
				}
				asked[o.Key] = true
				if o.Key == layout.FeedPage("f", 6) {
					close(ahead)
				}
			})
			c := inside(t, newServer(t, store, server.Config{}))
			c.readPages(t, "f", 1, 3)
			if tt.ahead {
				<-ahead
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if asked[layout.FeedPage("f", 4)] {
				t.Error("a store on a local disk is read ahead")
			}
		})
	}
}

// TestStoreMetrics: operations are measured with every kind of store.
func TestStoreMetrics(t *testing.T) {
	store := memory.New()
	publishTo(t, store, "f", 0, 3)
	c := inside(t, newServer(t, fault.Wrap(store, func(op fault.Op) fault.Outcome {
		if op.Key == layout.FeedPage("lost", 1) || strings.HasPrefix(op.Key, layout.FeedPages("lost")) {
			return fault.Lost
		}
		return fault.Pass
	}), server.Config{}))
	c.get(t, "/feeds/f")
	c.get(t, "/feeds/none")
	c.get(t, "/feeds/lost")
	metrics := string(c.get(t, "/metrics").body)
	for _, want := range []string{
		`feedctl_store_operation_duration_seconds_count{operation="get"} `,
		`feedctl_store_errors_total{operation="stat"} 1`,
	} {
		if !strings.Contains(metrics, "\n"+want) {
			t.Errorf("no %s in the metrics", want)
		}
	}
}
