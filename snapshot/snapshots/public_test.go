package snapshots_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/snapshot"
	"github.com/feedctl/feedctl/snapshot/snapshots"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

// A presigning store presigns URLs that are valid for up to a day.
type presigning struct{ storage.Store }

var errTooLong = errors.New("at most a day")

func (presigning) Presign(_ context.Context, key string, valid time.Duration) (string, error) {
	if valid > 24*time.Hour {
		return "", errTooLong
	}
	return "https://bucket.example/" + key + "?valid=" + valid.String(), nil
}

func three() iter.Seq2[*feed.Entity, error] {
	return func(yield func(*feed.Entity, error) bool) {
		for _, body := range []string{"a", "b", "c"} {
			if !yield(&feed.Entity{ContentType: "text/plain", Body: []byte(body)}, nil) {
				return
			}
		}
	}
}

// TestPublicIndex checks the URLs in an index that is read from the store.
func TestPublicIndex(t *testing.T) {
	at := time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)
	position := func(root string) *snapshot.FeedPosition {
		return &snapshot.FeedPosition{URL: root + "/feeds/f", Page: root + "/feeds/f/pages/7", LastModified: at, ContentID: "<1>"}
	}
	for name, test := range map[string]struct {
		config snapshots.Config
		page   func(id string, n int) string
		feed   *snapshot.FeedPosition
	}{
		"for a server": {
			config: snapshots.Config{},
			page:   func(id string, n int) string { return layout.SnapshotPagePath("s", id, n) },
			feed:   position(""),
		},
		"at a public URL": {
			config: snapshots.Config{PublicURL: "https://cdn.example/data/"},
			page: func(id string, n int) string {
				return "https://cdn.example/data/" + layout.SnapshotPage("s", id, n)
			},
			feed: position("https://cdn.example/data"),
		},
		"presigned": {
			config: snapshots.Config{Presign: time.Hour},
			page: func(id string, n int) string {
				return "https://bucket.example/" + layout.SnapshotPage("s", id, n) + "?valid=1h0m0s"
			},
			feed: position("http://unknown.invalid"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			store := presigning{memory.New()}
			test.config.Feed, test.config.MaxPageBytes = position(""), 1
			index, err := snapshots.Write(t.Context(), store, "s", three(), test.config)
			if err != nil {
				t.Fatal(err)
			}
			var pages []string
			for n := range 3 {
				pages = append(pages, test.page(index.ID, n))
				info, err := store.Stat(t.Context(), layout.SnapshotPage("s", index.ID, n))
				if err != nil || info.Meta.CacheControl != "public, max-age=31536000, immutable" {
					t.Errorf("page %d: %+v, %v", n, info.Meta, err)
				}
			}
			if diff := cmp.Diff(pages, index.Pages); diff != "" {
				t.Errorf("pages (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.feed, index.Feed); diff != "" {
				t.Errorf("feed (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCannotPresign: if URLs cannot be formed, Write fails before it writes anything.
func TestCannotPresign(t *testing.T) {
	plain := memory.New()
	for name, test := range map[string]struct {
		store  storage.Store
		config snapshots.Config
		want   error // nil: any
	}{
		"store without it": {plain, snapshots.Config{Presign: time.Hour}, snapshots.ErrPresign},
		"too long":         {presigning{plain}, snapshots.Config{Presign: 25 * time.Hour}, errTooLong},
		"negative":         {presigning{plain}, snapshots.Config{Presign: -1}, nil},
		"both":             {presigning{plain}, snapshots.Config{Presign: 1, PublicURL: "https://cdn.example"}, nil},
		"malformed URL":    {plain, snapshots.Config{PublicURL: "https://cdn example"}, nil},
	} {
		if _, err := snapshots.Write(t.Context(), test.store, "s", three(), test.config); err == nil || test.want != nil && !errors.Is(err, test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for entry, err := range plain.List(t.Context(), "", "") {
		t.Errorf("an object was written: %s, %v", entry.Key, err)
	}
}
