package storagetest

import (
	"context"
	"testing"

	"github.com/feedctl/feedctl/storage"
)

// testClock compares the clock with the times of objects written before and
// after it was read.
func testClock(t *testing.T, s *suite) {
	clock := optional[storage.Clock](t, s)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := clock.Now(ctx)
	wantError(t, "Now", err, context.Canceled)

	key := s.key("a")
	version := s.create(t, key, storage.Meta{}, "")
	for range 20 {
		before := take(t, s.store, key).Info.Modified
		now, err := clock.Now(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if version, err = s.store.Append(t.Context(), key, version, storage.Meta{}, storage.Bytes()); err != nil {
			t.Fatal(err)
		}
		after := take(t, s.store, key).Info.Modified
		if now.Before(before) || after.Before(now) {
			t.Fatalf("time goes backwards: object %v, clock %v, object %v", before, now, after)
		}
	}
}
