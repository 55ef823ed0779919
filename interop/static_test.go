package interop

import (
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/s3test"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/snapshot/snapshots"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/s3"
)

// TestJavaReadsBucket: a snapshot with presigned URLs is read from the bucket, without
// feedctl.
func TestJavaReadsBucket(t *testing.T) {
	programs := classPath(t)
	u, err := url.Parse(s3test.Start(t).URL("interop"))
	if err != nil {
		t.Fatal(err)
	}
	store, err := s3.Open(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	list := withoutEvents(entities())
	index, err := snapshots.Write(t.Context(), store, "interop", func(yield func(*feed.Entity, error) bool) {
		for _, e := range list {
			if !yield(e, nil) {
				return
			}
		}
	}, snapshots.Config{Presign: time.Hour, MaxPageBytes: 1 << 10})
	if err != nil {
		t.Fatal(err)
	}
	presigner, _ := storage.As[storage.Presigner](store)
	ref, err := presigner.Presign(t.Context(), layout.SnapshotIndex("interop", index.ID), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(lines(list), javaReader(t, programs, "snapshot", ref)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
