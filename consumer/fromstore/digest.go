package fromstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/digest"
	"github.com/feedctl/feedctl/digest/digests"
	"github.com/feedctl/feedctl/storage"
)

// Digest reads the root of the newest state digest of a feed. Its position contains URLs of this
// source. Nodes and leaves are read from the store when they are needed. The error matches
// [consumer.ErrNoDigest] if there is no digest.
func (s *Source) Digest(ctx context.Context, feed string) (*digest.Reader, error) {
	id, err := digests.Newest(ctx, s.store, feed)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, fmt.Errorf("%w: feed %q", consumer.ErrNoDigest, feed)
	}
	if err != nil {
		return nil, err
	}
	root, err := digests.Read(ctx, s.store, feed, id)
	if err != nil {
		return nil, err
	}
	for _, ref := range []*string{&root.Feed.URL, &root.Feed.Page, &root.Snapshot} {
		if path, ok := strings.CutPrefix(*ref, "../.."); ok {
			*ref = s.name + path
		}
	}
	return &digest.Reader{Root: root, Objects: digests.Objects(s.store, feed)}, nil
}
