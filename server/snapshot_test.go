package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/snapshot"
	"github.com/feedctl/feedctl/snapshot/snapshots"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

// writeSnapshot writes a snapshot of n pages of one entity each.
func writeSnapshot(t *testing.T, store storage.Store, name string, n int) *snapshot.Index {
	t.Helper()
	index, err := snapshots.Write(context.Background(), store, name, func(yield func(*feed.Entity, error) bool) {
		for i := range n {
			e := entity(i)
			e.LastModified = epoch
			if !yield(e, nil) {
				return
			}
		}
	}, snapshots.Config{
		MaxPageBytes: 1, CreatedAt: epoch, SpoolDir: t.TempDir(),
		Feed: &snapshot.FeedPosition{URL: "/feeds/f", Page: "/feeds/f/pages/1", LastModified: epoch, ContentID: "<1>"},
	})
	check(t, err)
	return index
}

func newestID(t *testing.T, store storage.Store, name string) string {
	t.Helper()
	ids, _, err := snapshots.List(context.Background(), store, name)
	check(t, err)
	return ids[len(ids)-1]
}

func TestSnapshots(t *testing.T) {
	eachStore(t, func(t *testing.T, store storage.Store, connect func(*testing.T, http.Handler) *site) {
		old := writeSnapshot(t, store, "s", 1)
		id := writeSnapshot(t, store, "s", 3).ID
		for id != newestID(t, store, "s") { // ids of the same millisecond
			id = writeSnapshot(t, store, "s", 3).ID
		}
		_, err := store.Create(t.Context(), layout.SnapshotIndex("s", id+".bak"), storage.Meta{}, storage.Bytes(nil))
		check(t, err) // an unknown object, which sorts as the newest
		const public = "https://example.org/data"
		for _, config := range []server.Config{{}, {PublicURL: public}} {
			c := connect(t, newServer(t, store, config))
			base, fixed, newer := c.url, "private, max-age=31536000, immutable", "private, no-cache"
			if config.PublicURL != "" {
				base, fixed, newer = public, "public, max-age=31536000, immutable", "no-cache"
			}
			newest, byID := c.get(t, "/snapshots/s"), c.get(t, "/snapshots/s/"+id)
			if string(newest.body) != string(byID.body) {
				t.Errorf("newest index: %s\nby its id: %s", newest.body, byID.body)
			}
			index, err := snapshot.Parse(bytes.NewReader(byID.body))
			check(t, err)
			var pages []string
			for n := range 3 {
				pages = append(pages, fmt.Sprintf("%s/snapshots/s/%s/pages/%d", base, id, n))
			}
			want := &snapshot.Index{
				ID: id, CreatedAt: feed.Truncate(epoch), Pages: pages, Entities: 3,
				Feed: &snapshot.FeedPosition{URL: base + "/feeds/f", Page: base + "/feeds/f/pages/1", LastModified: epoch, ContentID: "<1>"},
			}
			if diff := cmp.Diff(want, index); diff != "" {
				t.Errorf("index (-want +got):\n%s", diff)
			}
			wantHeader := map[string]string{
				"Accept-Ranges": "bytes", "Cache-Control": fixed, "Content-Length": fmt.Sprint(len(byID.body)),
				"Content-Type": "application/json", "Etag": byID.Header.Get("Etag"), "Last-Modified": epochHTTP,
				"Link": "<" + base + `/digests/f>; rel="describedby"`, "Repr-Digest": reprDigest(byID.body), "Vary": "Accept-Encoding", "X-Content-Type-Options": "nosniff",
			}
			if diff := cmp.Diff(wantHeader, header(byID.Header)); diff != "" {
				t.Errorf("header of the index (-want +got):\n%s", diff)
			}
			wantHeader["Cache-Control"] = newer
			wantHeader["Content-Location"] = base + "/snapshots/s/" + id
			if diff := cmp.Diff(wantHeader, header(newest.Header)); diff != "" {
				t.Errorf("header of the newest index (-want +got):\n%s", diff)
			}

			for n := range 3 {
				path := fmt.Sprintf("/snapshots/s/%s/pages/%d", id, n)
				got, head := c.get(t, path), c.do(t, http.MethodHead, path, "")
				if diff := cmp.Diff(header(got.Header), header(head.Header)); diff != "" || got.StatusCode != 200 || head.StatusCode != 200 {
					t.Errorf("GET %s: %s, HEAD: %s (-get +head):\n%s", path, got.Status, head.Status, diff)
				}
				if got.Header.Get("Repr-Digest") != reprDigest(got.body) || got.Header.Get("Cache-Control") != "public, max-age=31536000, immutable" || got.Header.Get("Last-Modified") == "" {
					t.Errorf("header of page %d: %v", n, got.Header)
				}
				if again := c.get(t, path, "If-Modified-Since: "+got.Header.Get("Last-Modified")); again.StatusCode != http.StatusNotModified {
					t.Errorf("If-Modified-Since with its Last-Modified: %s", again.Status)
				}
			}
			if got := c.get(t, "/snapshots/s/"+old.ID); got.StatusCode != 200 {
				t.Errorf("an older index: %s", got.Status)
			}
			if got := c.get(t, "/snapshots/s", "Range: bytes=2-5"); got.StatusCode != 206 || string(got.body) != string(newest.body[2:6]) {
				t.Errorf("range of the index: %s %q", got.Status, got.body)
			}
		}
	})
}

func TestUnfinishedSnapshot(t *testing.T) {
	eachStore(t, func(t *testing.T, store storage.Store, connect func(*testing.T, http.Handler) *site) {
		index := writeSnapshot(t, store, "s", 1)
		check(t, store.Delete(context.Background(), "snapshots/s/index/"+index.ID))
		c := connect(t, newServer(t, store, server.Config{}))
		for _, path := range []string{"/snapshots/s", "/snapshots/s/" + index.ID, "/snapshots/s/" + index.ID + "/pages/0"} {
			if got := c.get(t, path); got.StatusCode != http.StatusNotFound {
				t.Errorf("GET %s of a snapshot without index: %s", path, got.Status)
			}
		}
	})
}

// TestIndexForOthers: an index whose URLs refer to the pages in the store, because it was written for
// readers of the store, is served with the server's own URLs.
func TestIndexForOthers(t *testing.T) {
	store := memory.New()
	index := writeSnapshot(t, store, "s", 2)
	key := layout.SnapshotIndex("s", index.ID)
	for n := range index.Pages {
		index.Pages[n] = fmt.Sprintf("https://bucket.example/%s?expires=1", layout.SnapshotPage("s", index.ID, n))
	}
	index.Feed = &snapshot.FeedPosition{URL: "http://store.invalid/feeds/f", Page: "http://store.invalid/feeds/f/pages/7", LastModified: epoch}
	data, err := json.Marshal(index)
	check(t, err)
	info, err := store.Stat(t.Context(), key)
	check(t, err)
	_, err = store.Replace(t.Context(), key, info.Version, storage.Meta{ContentType: info.Meta.ContentType}, storage.Bytes(data))
	check(t, err)
	c := inside(t, newServer(t, store, server.Config{}))
	served, err := snapshot.Parse(bytes.NewReader(c.get(t, "/snapshots/s").body))
	check(t, err)
	for n, page := range served.Pages {
		if page != c.url+layout.SnapshotPagePath("s", index.ID, n) || c.get(t, page).StatusCode != http.StatusOK {
			t.Errorf("page %d is %s", n, page)
		}
	}
	if f := served.Feed; f == nil || f.URL != c.url+"/feeds/f" || f.Page != c.url+"/feeds/f/pages/7" {
		t.Errorf("position in the feed is %+v", f)
	}
}

// TestLargeIndex: an index is generated as it is sent, with the same content wherever a range begins.
func TestLargeIndex(t *testing.T) {
	store := memory.New()
	const pages = 3000
	index := writeSnapshot(t, store, "s", 1)
	key := layout.SnapshotIndex("s", index.ID)
	index.Pages = nil
	for n := range pages {
		index.Pages = append(index.Pages, layout.SnapshotPagePath("s", index.ID, n))
	}
	data, err := json.Marshal(index)
	check(t, err)
	info, err := store.Stat(t.Context(), key)
	check(t, err)
	_, err = store.Replace(t.Context(), key, info.Version, storage.Meta{ContentType: info.Meta.ContentType}, storage.Bytes(data))
	check(t, err)
	c := inside(t, newServer(t, store, server.Config{}))
	whole := c.get(t, "/snapshots/s")
	served, err := snapshot.Parse(bytes.NewReader(whole.body))
	check(t, err)
	for n, page := range served.Pages {
		if page != c.url+layout.SnapshotPagePath("s", index.ID, n) {
			t.Fatalf("page %d is %s", n, page)
		}
	}
	if len(served.Pages) != pages || whole.Header.Get("Repr-Digest") != reprDigest(whole.body) || whole.Header.Get("Content-Length") != itoa(len(whole.body)) {
		t.Errorf("%d pages, header %v", len(served.Pages), whole.Header)
	}
	for _, from := range []int{0, 1, 40_000, len(whole.body) - 1} {
		to := min(from+50_000, len(whole.body)-1)
		if got := c.get(t, "/snapshots/s", "Range: bytes="+itoa(from)+"-"+itoa(to)); string(got.body) != string(whole.body[from:to+1]) {
			t.Errorf("range from %d: %s, %d bytes", from, got.Status, len(got.body))
		}
	}
}
