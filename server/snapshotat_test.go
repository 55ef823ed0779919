package server_test

import (
	"bytes"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/snapshot"
	"github.com/feedctl/feedctl/snapshot/snapshots"
	"github.com/feedctl/feedctl/storage"
)

// TestSnapshotAt: at=TIME returns the newest snapshot whose position in the feed is not later.
func TestSnapshotAt(t *testing.T) {
	eachStore(t, func(t *testing.T, store storage.Store, connect func(*testing.T, http.Handler) *site) {
		write := func(at *snapshot.FeedPosition) string {
			none := func(func(*feed.Entity, error) bool) {}
			for {
				index, err := snapshots.Write(t.Context(), store, "s", none, snapshots.Config{CreatedAt: epoch, Feed: at, SpoolDir: t.TempDir()})
				check(t, err)
				if index.ID == newestID(t, store, "s") { // not one of the same millisecond
					return index.ID
				}
				check(t, snapshots.Delete(t.Context(), store, "s", index.ID))
			}
		}
		var ids []string
		for n := range 10 {
			ids = append(ids, write(&snapshot.FeedPosition{URL: "/feeds/f", Page: layout.FeedPagePath("f", 1), LastModified: epoch.Add(time.Duration(n) * 10 * time.Second), ContentID: "<1>"}))
			if n == 5 {
				write(nil) // not from a feed
			}
		}
		c := connect(t, newServer(t, store, server.Config{}))
		for seconds, want := range map[int]int{-1: -1, 0: 0, 9: 0, 10: 1, 50: 5, 59: 5, 60: 6, 89: 8, 90: 9, 1000: 9} {
			r := c.get(t, "/snapshots/s?at="+epoch.Add(time.Duration(seconds)*time.Second).Format(time.RFC3339))
			if want < 0 {
				if r.StatusCode != http.StatusNotFound || !bytes.Contains(r.body, []byte("the oldest is from 2023-11-27T03:10:00Z")) {
					t.Errorf("%d s: status %d: %s", seconds, r.StatusCode, r.body)
				}
				continue
			}
			if got := r.Header.Get("Content-Location"); r.StatusCode != http.StatusOK || got != c.url+layout.SnapshotIndexPath("s", ids[want]) {
				t.Errorf("%d s: status %d, %s, want snapshot %d", seconds, r.StatusCode, got, slices.Index(ids, ids[want]))
			}
		}
		for path, status := range map[string]int{"/snapshots/s?at=yesterday": http.StatusBadRequest, "/snapshots/x?at=2026-01-01T00:00:00Z": http.StatusNotFound, "/snapshots/s?at=": http.StatusOK} {
			if r := c.get(t, path); r.StatusCode != status {
				t.Errorf("%s: status %d", path, r.StatusCode)
			}
		}
	})
}
