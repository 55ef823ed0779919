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

// Copy copies the newest digest of a feed to another store, unless there is none or the other store already has it,
// and reports whether it did. Leaves of the other store's own newest digest are not copied again. Everything that is
// copied is verified. Writes are not retried; to continue after an error, call Copy again.
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
		there, err := w.reusable(ctx)
		if err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, digest.ErrInvalid) && !errors.Is(err, storage.ErrNotFound) {
			return nil, err // the excepted errors mean that the base is damaged, so less of it can be reused
		}
		return data, w.copy(ctx, &digest.Reader{Root: root, Objects: Objects(from, feed)}, there)
	})
	return err == nil, err
}

// reusable returns the leaves of the base that are in the store. Leaves that are not in the base may be collected at
// any time.
func (w *Writer) reusable(ctx context.Context) (map[digest.Hash]bool, error) {
	if w.config.Base == "" {
		return nil, nil
	}
	root, err := Read(ctx, w.store, w.feed, w.config.Base)
	if err != nil {
		return nil, err
	}
	r := &digest.Reader{Root: root, Objects: Objects(w.store, w.feed)}
	there := make(map[digest.Hash]bool)
	for i, node := range root.Nodes {
		if !w.Has(node.Object) {
			continue // the leaves of this node are written again
		}
		leaves, err := r.Leaves(ctx, i)
		if err != nil {
			return there, err
		}
		for _, leaf := range leaves {
			there[leaf.Object] = w.Has(leaf.Object)
		}
	}
	return there, nil
}

// copy stores the nodes of a digest, and its leaves except those that the map there says are stored already.
func (w *Writer) copy(ctx context.Context, r *digest.Reader, there map[digest.Hash]bool) error {
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
			if there[leaf.Object] {
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
