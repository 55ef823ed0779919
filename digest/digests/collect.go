package digests

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/feedctl/feedctl/digest"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/storage"
)

// A stored describes a root in a listing.
type stored struct {
	id       string
	modified time.Time
}

// list returns the roots of a feed, oldest first. Unknown objects among them are ignored.
func list(ctx context.Context, store storage.Store, feed string) (roots []stored, err error) {
	if err := layout.CheckName(feed); err != nil {
		return nil, fmt.Errorf("list state digests: %w", err)
	}
	for entry, err := range store.List(ctx, layout.DigestRoots(feed), "") {
		if err != nil {
			return nil, fmt.Errorf("list state digests of feed %q: %w", feed, err)
		}
		if id, err := layout.ParseDigestRoot(feed, entry.Key); err == nil {
			roots = append(roots, stored{id, entry.Modified})
		}
	}
	return roots, nil
}

// Collect removes digests that were replaced by a newer one at least a day ago, and nodes and
// leaves that belong to no digest and were written at least a day ago. It may run at the same time
// as writers and readers: a reader has a day to read a digest that it found to be the newest. It
// returns the number of objects removed. It needs about 100 bytes of memory for each leaf of the
// digests that remain.
//
// If a writer needs an old object again at the very moment at which the object is removed, its
// digest lacks this object. Reading that digest is an error; the next digest has the object again.
func Collect(ctx context.Context, store storage.Store, feed string) (removed int, err error) {
	now, err := storage.Now(ctx, store, time.Now)
	if err == nil {
		c := &collector{store: store, feed: feed, before: now.Add(-leftover)}
		err = c.collect(ctx)
		removed = c.removed
	}
	if err != nil {
		return removed, fmt.Errorf("collect state digests of feed %q: %w", feed, err)
	}
	return removed, nil
}

type collector struct {
	store   storage.Store
	feed    string
	before  time.Time // objects that were written after this time are kept
	removed int
}

func (c *collector) collect(ctx context.Context) error {
	// List the objects before the roots: an object that belongs to none of the roots then has no
	// reader. A writer that needs the object in the meantime writes it again, so it is no longer
	// old.
	old, err := c.old(ctx)
	if err != nil {
		return err
	}
	roots, err := list(ctx, c.store, c.feed)
	if err != nil {
		return err
	}
	for i, r := range roots {
		if i+1 < len(roots) && !roots[i+1].modified.After(c.before) {
			if err := c.store.Delete(ctx, layout.DigestRoot(c.feed, r.id)); err != nil {
				return err
			}
			c.removed++
			continue
		}
		if err := c.mark(ctx, r.id, old); err != nil {
			return err
		}
	}
	for name := range old {
		key := layout.DigestNode(c.feed, name.String())
		if info, err := c.store.Stat(ctx, key); err == nil && info.Modified.After(c.before) {
			continue
		}
		if err := c.store.Delete(ctx, key); err != nil {
			return err
		}
		c.removed++
	}
	return nil
}

// old returns the names of the nodes and leaves that are old enough to be removed.
func (c *collector) old(ctx context.Context) (map[digest.Hash]struct{}, error) {
	old := make(map[digest.Hash]struct{})
	for object, err := range listNodes(ctx, c.store, c.feed) {
		if err != nil {
			return nil, err
		}
		if !object.modified.After(c.before) {
			old[object.name] = struct{}{}
		}
	}
	return old, nil
}

// An object is a node or leaf in a listing.
type object struct {
	name     digest.Hash
	modified time.Time
}

// listNodes yields the nodes and leaves of the digests of a feed. Unknown objects among them are
// skipped.
func listNodes(ctx context.Context, store storage.Store, feed string) iter.Seq2[object, error] {
	return func(yield func(object, error) bool) {
		prefix := layout.DigestNodes(feed)
		for entry, err := range store.List(ctx, prefix, "") {
			if err != nil {
				yield(object{}, err)
				return
			}
			name, err := digest.ParseHash(strings.TrimPrefix(entry.Key, prefix))
			if err == nil && !yield(object{name, entry.Modified}, nil) {
				return
			}
		}
	}
}

// mark removes the nodes and leaves of a digest from the map old.
func (c *collector) mark(ctx context.Context, id string, old map[digest.Hash]struct{}) error {
	if len(old) == 0 {
		return nil
	}
	root, err := Read(ctx, c.store, c.feed, id)
	if err != nil {
		return err
	}
	r := &digest.Reader{Root: root, Objects: Objects(c.store, c.feed)}
	for i, node := range root.Nodes {
		leaves, err := r.Leaves(ctx, i)
		if err != nil {
			return err
		}
		delete(old, node.Object)
		for _, leaf := range leaves {
			delete(old, leaf.Object)
		}
	}
	return nil
}
