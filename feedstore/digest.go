package feedstore

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/feedctl/feedctl/digest"
	"github.com/feedctl/feedctl/digest/digests"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/storage"
)

// ErrNoDigest means that there is no such state digest, or that no state digest has such a node or leaf.
var ErrNoDigest = errors.New("there is no such state digest")

// NewestDigest returns the ID of the newest state digest of a feed.
func (r *Reader) NewestDigest(ctx context.Context, feed string) (string, error) {
	if layout.CheckName(feed) != nil {
		return "", ErrNoDigest
	}
	id, err := digests.Newest(ctx, r.store, feed)
	if errors.Is(err, storage.ErrNotFound) {
		err = ErrNoDigest
	}
	return id, err
}

// A DigestPart names a part of the state digests of a feed: a root by its ID, or a node or leaf by
// its name.
type DigestPart struct {
	Feed string
	ID   string // ID of a root; "" for a node or leaf
	Name digest.Hash
}

func (p DigestPart) key() string {
	if p.ID != "" {
		return layout.DigestRoot(p.Feed, p.ID)
	}
	return layout.DigestNode(p.Feed, p.Name.String())
}

// StatDigest returns the Info of a part of a state digest, and its SHA-256 in hex.
func (r *Reader) StatDigest(ctx context.Context, p DigestPart) (storage.Info, string, error) {
	info, err := r.store.Stat(ctx, p.key())
	if err != nil {
		return storage.Info{}, "", noDigest(err)
	}
	sum, err := r.digestSum(p, info)
	return info, sum, err
}

// OpenDigest returns the same as StatDigest, and opens length bytes of the body of the part, beginning at
// offset; a negative length means to the end. The body is verified as by [Feed.Open].
func (r *Reader) OpenDigest(ctx context.Context, p DigestPart, offset, length int64) (storage.Info, string, io.ReadCloser, error) {
	object, err := r.store.Get(ctx, p.key(), offset, length)
	if err != nil {
		return storage.Info{}, "", nil, noDigest(err)
	}
	sum, err := r.digestSum(p, object.Info)
	if err != nil {
		return storage.Info{}, "", nil, errors.Join(err, object.Body.Close())
	}
	var body io.ReadCloser
	if offset > 0 || length >= 0 {
		body, err = r.integrity.part(ctx, object, sum)
	} else {
		body, err = r.integrity.whole(object, sum)
	}
	return object.Info, sum, body, err
}

func noDigest(err error) error {
	if errors.Is(err, storage.ErrNotFound) {
		return ErrNoDigest
	}
	return fmt.Errorf("read state digest: %w", err)
}

func (r *Reader) digestSum(p DigestPart, info storage.Info) (string, error) {
	if p.ID == "" {
		return p.Name.String(), nil
	}
	sum, err := digests.DecodeRoot(p.Feed, p.ID, info.Meta.Data)
	if err != nil {
		return "", r.Corrupt(info.Key, err)
	}
	return sum.String(), nil
}
