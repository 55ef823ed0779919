package snapshots

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/snapshot"
	"github.com/feedctl/feedctl/storage"
)

// unknownRoot begins the URL of the feed in an index with presigned URLs, since the writer does not
// know where the feed is served. The URL must be absolute, and the name in this one never resolves
// (RFC 6761, section 6.4).
const unknownRoot = "http://unknown.invalid"

// ErrPresign means that the store is not a [storage.Presigner].
var ErrPresign = errors.New("store cannot presign URLs")

// checkURLs checks, before anything is written, that the URLs in the index can be formed.
func (w *writer) checkURLs(ctx context.Context) error {
	c := w.config
	switch {
	case c.Presign < 0:
		return fmt.Errorf("presign for %v: must be positive", c.Presign)
	case c.Presign > 0 && c.PublicURL != "":
		return errors.New("presign: pages at a public URL need no presigned URLs")
	}
	_, err := w.pageURL(ctx, 0)
	return err
}

// pageURL returns the URL of page n, as written in the index.
func (w *writer) pageURL(ctx context.Context, n int) (string, error) {
	ref, err := w.config.url(ctx, w.store, layout.SnapshotPage(w.name, w.id, n))
	return cmp.Or(ref, layout.SnapshotPagePath(w.name, w.id, n)), err
}

// IndexURL returns the URL at which readers without a server find the index of a snapshot, or "" if
// c has neither a PublicURL nor Presign.
func (c Config) IndexURL(ctx context.Context, store storage.Store, name, id string) (string, error) {
	return c.url(ctx, store, layout.SnapshotIndex(name, id))
}

// url returns the absolute URL of an object, or "" if c has neither a PublicURL nor Presign.
func (c Config) url(ctx context.Context, store storage.Store, key string) (string, error) {
	switch {
	case c.Presign > 0:
		presigner, ok := storage.As[storage.Presigner](store)
		if !ok {
			return "", ErrPresign
		}
		ref, err := presigner.Presign(ctx, key, c.Presign)
		if err != nil {
			return "", fmt.Errorf("presign URL of %s: %w", key, err)
		}
		return ref, nil
	case c.PublicURL != "":
		return join(c.PublicURL, key)
	}
	return "", nil
}

// feedPosition returns the position in the feed, as written in the index. Readers without a server
// need absolute URLs.
func (w *writer) feedPosition() (*snapshot.FeedPosition, error) {
	root := w.config.PublicURL
	if w.config.Presign > 0 {
		root = unknownRoot
	}
	if w.config.Feed == nil || root == "" {
		return w.config.Feed, nil
	}
	position := *w.config.Feed
	for _, ref := range []*string{&position.URL, &position.Page} {
		if !strings.HasPrefix(*ref, "/") {
			continue // absolute or empty
		}
		var err error
		if *ref, err = join(root, *ref); err != nil {
			return nil, err
		}
	}
	return &position, nil
}

func join(root, path string) (string, error) {
	ref, err := url.JoinPath(root, path)
	if err != nil {
		return "", fmt.Errorf("append %s to URL: %w", path, err)
	}
	return ref, nil
}
