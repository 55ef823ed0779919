package server_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/digest"
	"github.com/feedctl/feedctl/digest/digests"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/snapshot"
	"github.com/feedctl/feedctl/storage"
)

// writeDigest writes a digest of feed f with n keys.
func writeDigest(t *testing.T, store storage.Store, n int) *digests.Result {
	t.Helper()
	result, err := digests.Write(context.Background(), store, "f", digests.Config{}, func(ctx context.Context, put *digests.Writer) (*digest.Root, error) {
		tree, err := digest.Build(ctx, func(yield func(digest.Entry, error) bool) {
			for i := range n {
				if !yield(digest.Entry{Key: fmt.Sprintf("key %06d", i), ContentID: fmt.Sprintf("<%d>", i), Page: 1}, nil) {
					return
				}
			}
		}, put)
		return &digest.Root{Feed: snapshot.FeedPosition{URL: "../../feeds/f", Page: "../../feeds/f/pages/2", LastModified: epoch, ContentID: "<4>"}, Tree: tree}, err
	})
	check(t, err)
	return result
}

func TestDigests(t *testing.T) {
	eachStore(t, func(t *testing.T, store storage.Store, connect func(*testing.T, http.Handler) *site) {
		publishTo(t, store, "f", 1, 4)
		writeDigest(t, store, 10)
		result := writeDigest(t, store, 3000)
		const public = "https://example.org/data"
		for _, config := range []server.Config{{}, {PublicURL: public}} {
			c := connect(t, newServer(t, store, config))
			base, newer := c.url, "private, no-cache"
			if config.PublicURL != "" {
				base, newer = public, "no-cache"
			}
			own := "/digests/f/" + result.ID
			newest, byID := c.get(t, "/digests/f"), c.get(t, own)
			if newest.Header.Get("Content-Location") != base+own || newest.Header.Get("Cache-Control") != newer {
				t.Errorf("newest digest: %v", newest.Header)
			}
			root, err := digest.ParseRoot(bytes.NewReader(newest.body))
			if err != nil || root.Hash != result.Root.Hash || !bytes.Equal(newest.body, byID.body) {
				t.Fatalf("newest digest is %s, by its ID %s: %v", newest.body, byID.body, err)
			}
			node := c.get(t, "/digests/f/nodes/"+root.Nodes[0].Object.String())
			if _, err := digest.ParseNode(node.body, root.Nodes[0], digest.All); err != nil {
				t.Error(err)
			}
			for _, fixed := range []answer{byID, node} {
				if got := fixed.Header.Get("Cache-Control"); got != "public, max-age=31536000, immutable" || fixed.Header.Get("Content-Type") != digest.MediaType {
					t.Errorf("%s: %v", fixed.Request.URL, fixed.Header)
				}
				if again := c.get(t, fixed.Request.URL.Path, "If-None-Match: "+fixed.Header.Get("Etag")); again.StatusCode != http.StatusNotModified {
					t.Errorf("%s with its ETag: %s", fixed.Request.URL, again.Status)
				}
				if zstd := c.get(t, fixed.Request.URL.Path, "Accept-Encoding: zstd"); zstd.Header.Get("Content-Encoding") != "zstd" {
					t.Errorf("%s with zstd: %v", fixed.Request.URL, zstd.Header)
				}
			}
		}
		c := connect(t, newServer(t, store, server.Config{}))
		for _, path := range []string{"/digests/g", "/digests/f/x", "/digests/..%2f", "/digests/f/nodes/x", "/digests/f/nodes/" + digest.Hash{}.String()} {
			missing := c.get(t, path)
			if missing.StatusCode != http.StatusNotFound {
				t.Errorf("%s: %s", path, missing.Status)
			} else if name, _ := missing.problem(t); name != "no-digest" {
				t.Errorf("%s: problem %s", path, name)
			}
		}
	})
}

// TestDigestFromClient: a consumer finds the digest of a feed, and reads all of it.
func TestDigestFromClient(t *testing.T) {
	eachStore(t, func(t *testing.T, store storage.Store, connect func(*testing.T, http.Handler) *site) {
		publishTo(t, store, "f", 1, 4)
		writeDigest(t, store, 3000)
		for _, prefix := range []string{"", "/data"} {
			h := http.Handler(newServer(t, store, server.Config{}))
			if prefix != "" {
				h = http.StripPrefix(prefix, h)
			}
			c := connect(t, h)
			client, err := consumer.New(consumer.Config{HTTPClient: c.client})
			check(t, err)
			r, err := client.Digest(t.Context(), c.url+prefix+"/feeds/f")
			check(t, err)
			if want := c.url + prefix + "/feeds/f/pages/2"; r.Root.Feed.Page != want {
				t.Errorf("position is on page %s, want %s", r.Root.Feed.Page, want)
			}
			n := 0
			for _, err := range r.In(t.Context(), digest.All) {
				check(t, err)
				n++
			}
			if n != 3000 {
				t.Errorf("digest has %d keys", n)
			}
		}
	})
}

// TestCorruptDigest: a damaged root, node or leaf is not sent.
func TestCorruptDigest(t *testing.T) {
	eachStore(t, func(t *testing.T, store storage.Store, connect func(*testing.T, http.Handler) *site) {
		result := writeDigest(t, store, 100)
		node := result.Root.Nodes[0].Object.String()
		for key, path := range map[string]string{
			layout.DigestRoot("f", result.ID): "/digests/f/" + result.ID,
			layout.DigestNode("f", node):      "/digests/f/nodes/" + node,
		} {
			info, err := store.Stat(t.Context(), key)
			check(t, err)
			_, err = store.Replace(t.Context(), key, info.Version, info.Meta, storage.Bytes(bytes.Repeat([]byte("x"), int(info.Size))))
			check(t, err)
			c := connect(t, newServer(t, store, server.Config{}))
			for _, fields := range [][]string{nil, {"Range: bytes=1-2"}, {"Accept-Encoding: zstd"}} {
				if bad := c.get(t, path, fields...); bad.StatusCode != http.StatusInternalServerError {
					t.Errorf("%s %v: %s", path, fields, bad.Status)
				}
			}
		}
	})
}
