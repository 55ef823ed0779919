package producer

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/snapshot"
	"github.com/feedctl/feedctl/storage"
)

// unknownRoot begins the URL of a feed in an index whose writer does not know where
// the feed is served: an absolute URL is required, and this one leads nowhere (RFC
// 6761, section 6.4).
const unknownRoot = "http://unknown.invalid"

// ErrPresign: the store cannot make URLs that are their own credential.
var ErrPresign = errors.New("store cannot presign URLs")

// checkPublic finds out, before anything is written, whether the index can be.
func (w *snapshotWriter) checkPublic(ctx context.Context) error {
	c := w.config
	switch {
	case c.Presign < 0:
		return fmt.Errorf("presign for %v: it must be positive", c.Presign)
	case c.Presign > 0 && c.PublicURL != "":
		return errors.New("presign: pages at a public URL need none")
	}
	_, err := w.pageURL(ctx, 0)
	return err
}

// pageURL returns the URL of a page, as the index has it.
func (w *snapshotWriter) pageURL(ctx context.Context, n int) (string, error) {
	key := layout.SnapshotPage(w.name, w.id, n)
	switch {
	case w.config.Presign > 0:
		presigner, ok := storage.As[storage.Presigner](w.store)
		if !ok {
			return "", ErrPresign
		}
		ref, err := presigner.Presign(ctx, key, w.config.Presign)
		if err != nil {
			return "", fmt.Errorf("presign URL of %s: %w", key, err)
		}
		return ref, nil
	case w.config.PublicURL != "":
		return join(w.config.PublicURL, key)
	}
	return layout.SnapshotPagePath(w.name, w.id, n), nil
}

// publicFeed returns the position in the feed, as the index has it. Readers without
// a server want absolute URLs.
func (w *snapshotWriter) publicFeed() (*snapshot.FeedPosition, error) {
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
			continue // absolute, or absent
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
