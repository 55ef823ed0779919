package replica_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/feedctl/feedctl/digest"
	"github.com/feedctl/feedctl/digest/digests"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/replica"
	"github.com/feedctl/feedctl/snapshot"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

// writeDigest writes a digest of feed a, in which one key has the given state.
func writeDigest(t *testing.T, store storage.Store, state byte) *digests.Result {
	t.Helper()
	result, err := digests.Write(t.Context(), store, "a", digests.Config{}, func(ctx context.Context, w *digests.Writer) (*digest.Root, error) {
		tree, err := digest.Build(ctx, func(yield func(digest.Entry, error) bool) {
			for n := range 3000 {
				e := digest.Entry{Key: fmt.Sprintf("%06d", n)}
				if n == 0 {
					e.Sum[0] = state
				}
				if !yield(e, nil) {
					return
				}
			}
		}, w)
		return &digest.Root{Feed: snapshot.FeedPosition{URL: "../../feeds/a"}, Tree: tree}, err
	})
	check(t, err)
	return result
}

// TestDigest: the newest digest is copied completely, and of a later digest only what has changed. A
// damaged digest does not stop the copy.
func TestDigest(t *testing.T) {
	from, to := source(t), memory.New()
	copied := func(want *digests.Result) {
		t.Helper()
		check(t, replica.New(from, to, replica.Config{Name: "a"}).Run(t.Context()))
		id, err := digests.Newest(t.Context(), to, "a")
		check(t, err)
		root, err := digests.Read(t.Context(), to, "a", id)
		if check(t, err); id != want.ID || root.Hash != want.Root.Hash {
			t.Errorf("digest %s with hash %s, want %s with %s", id, root.Hash, want.ID, want.Root.Hash)
		}
		n := int64(0)
		for _, err := range (&digest.Reader{Root: root, Objects: digests.Objects(to, "a")}).In(t.Context(), digest.All) {
			check(t, err)
			n++
		}
		if n != root.Count {
			t.Errorf("digest has %d keys, its root says %d", n, root.Count)
		}
	}
	copied(writeDigest(t, from, 2))
	later := writeDigest(t, from, 3)
	copied(later)

	damaged := writeDigest(t, from, 4)
	key := layout.DigestNode("a", damaged.Root.Nodes[0].Object.String())
	info, err := from.Stat(t.Context(), key)
	check(t, err)
	_, err = from.Replace(t.Context(), key, info.Version, info.Meta, storage.Bytes([]byte("damaged")))
	check(t, err)
	copied(later)
	copied(writeDigest(t, from, 5))

	for entry, err := range to.List(t.Context(), layout.DigestsPrefix, "") {
		check(t, err)
		info, err := to.Stat(t.Context(), entry.Key)
		check(t, err)
		_, err = to.Replace(t.Context(), entry.Key, info.Version, info.Meta, storage.Bytes([]byte("damaged")))
		check(t, err)
	}
	damaged = writeDigest(t, from, 6)
	check(t, replica.New(from, to, replica.Config{Name: "a"}).Run(t.Context()))
	root, err := digests.Read(t.Context(), to, "a", damaged.ID)
	if check(t, err); root.Hash != damaged.Root.Hash {
		t.Errorf("after damage to the target, the digest has hash %s", root.Hash)
	}
}
