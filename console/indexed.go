package console

import (
	"context"
	"errors"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/digest"
	"github.com/feedctl/feedctl/digest/digests"
	"github.com/feedctl/feedctl/storage"
)

// entityOf returns the last PUT of a key as found by means of the state digest of the feed, and the time of that
// digest. It reads a root, a node and a leaf, and the page. The entity is nil if there is no digest, or the digest does
// not have the key.
func (c *Console) entityOf(ctx context.Context, name, key string) (*hit, time.Time, error) {
	id, err := digests.Newest(ctx, c.config.Store, name)
	if err != nil {
		return nil, time.Time{}, ignore(err, storage.ErrNotFound)
	}
	root, err := digests.Read(ctx, c.config.Store, name, id)
	if err != nil || root.Versions {
		return nil, time.Time{}, err
	}
	reader := &digest.Reader{Root: root, Objects: digests.Objects(c.config.Store, name)}
	for e, err := range reader.In(ctx, digest.Range{From: key, To: key + "\x00"}) {
		if err != nil {
			return nil, time.Time{}, err
		}
		found, err := c.entityWith(ctx, name, e)
		return found, root.Feed.LastModified, ignore(err, chain.ErrPruned, chain.ErrNoPage)
	}
	return nil, time.Time{}, nil
}

// entityWith returns the entity of an entry of a state digest, or nil if the page has changed.
func (c *Console) entityWith(ctx context.Context, name string, e digest.Entry) (*hit, error) {
	if e.Page == 0 {
		return nil, nil
	}
	o, err := c.openPage(ctx, name, e.Page)
	if err != nil {
		return nil, err
	}
	defer o.close()
	for part, err := range o.parts() {
		if err != nil {
			return nil, err
		}
		if part.Offset == e.Offset && keyOf(part.Header) == e.Key {
			return &hit{entityRow: o.row(part)}, nil
		}
	}
	return nil, nil
}

// ignore returns err, or nil if err matches one of the given errors.
func ignore(err error, these ...error) error {
	for _, this := range these {
		if errors.Is(err, this) {
			return nil
		}
	}
	return err
}
