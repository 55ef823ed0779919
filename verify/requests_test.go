package verify_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/verify"
)

// A countingStore counts reads of objects. The server considers it remote.
type countingStore struct {
	storage.Store
	reads atomic.Uint64
}

func (s *countingStore) Stat(ctx context.Context, key string) (storage.Info, error) {
	s.reads.Add(1)
	return s.Store.Stat(ctx, key)
}

func (s *countingStore) Get(ctx context.Context, key string, offset, length int64) (*storage.Object, error) {
	s.reads.Add(1)
	return s.Store.Get(ctx, key, offset, length)
}

func (s *countingStore) Remote() bool { return true }

// TestStoreRequests: each page is read twice, as stored and as a consumer sees it. There are no
// other reads except to find the newest page.
func TestStoreRequests(t *testing.T) {
	store := &countingStore{Store: newStore(t, 100)}
	reader := chain.NewReader(store, "zones")
	if _, err := reader.Newest(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := reader.Floor(t.Context()); err != nil {
		t.Fatal(err)
	}
	find := store.reads.Swap(0)
	report, err := verify.Store(t.Context(), store, "zones", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := report.Err(); err != nil {
		t.Error(err)
	}
	// The newest page is requested with HEAD and with GET, under both of its URLs.
	if got, most := store.reads.Load(), 2*uint64(report.Pages)+3*find; got > most {
		t.Errorf("%d pages took %d reads, want at most %d; finding the newest takes %d", report.Pages, got, most, find)
	}
}
