package digests

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/feedctl/feedctl/digest"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/storage"
)

// Copy copies the newest digest of a feed to another store, unless there is none or the other
// store has it, and reports whether it did. What the other store has of earlier ones is not read.
// Everything that is copied is verified. Writes are not retried: Copy continues if it is repeated.
func Copy(ctx context.Context, from, to storage.Store, feed string) (copied bool, err error) {
	id, err := Newest(ctx, from, feed)
	if errors.Is(err, storage.ErrNotFound) {
		return false, nil
	}
	if err == nil {
		copied, err = copyDigest(ctx, from, to, feed, id)
	}
	if err != nil {
		return false, fmt.Errorf("copy state digest of feed %q: %w", feed, err)
	}
	return copied, nil
}

func copyDigest(ctx context.Context, from, to storage.Store, feed, id string) (bool, error) {
	if _, err := to.Stat(ctx, layout.DigestRoot(feed, id)); !errors.Is(err, storage.ErrNotFound) {
		return false, err
	}
	data, err := readBytes(ctx, from, feed, id)
	if err != nil {
		return false, err
	}
	root, err := digest.ParseRoot(bytes.NewReader(data))
	if err != nil {
		return false, err
	}
	base, err := Newest(ctx, to, feed)
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return false, err
	}
	w := newWriter(to, feed, Config{Base: base, RetryFor: -1})
	err = w.write(ctx, id, func(ctx context.Context) ([]byte, error) {
		return data, w.copy(ctx, &digest.Reader{Root: root, Objects: Objects(from, feed)})
	})
	return err == nil, err
}

// copy stores the nodes and leaves of a digest.
func (w *Writer) copy(ctx context.Context, r *digest.Reader) error {
	for i, node := range r.Root.Nodes {
		data, err := r.Objects.Get(ctx, node.Object)
		if err != nil {
			return err
		}
		leaves, err := digest.ParseNode(data, node, r.NodeRange(i))
		if err != nil {
			return err
		}
		for j, leaf := range leaves {
			if w.Has(leaf.Object) {
				continue
			}
			data, err := r.Objects.Get(ctx, leaf.Object)
			if err == nil {
				_, err = digest.ParseLeaf(data, leaf, digest.RangeOf(leaves, j, r.NodeRange(i)))
			}
			if err == nil {
				err = w.Put(ctx, leaf.Object, data)
			}
			if err != nil {
				return err
			}
		}
		if err := w.Put(ctx, node.Object, data); err != nil {
			return err
		}
	}
	return nil
}
