package digests_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/digest"
	"github.com/feedctl/feedctl/digest/digests"
	"github.com/feedctl/feedctl/internal/faulttest"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/snapshot"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/fault"
	"github.com/feedctl/feedctl/storage/memory"
)

// write writes a digest of n keys. Only the first two leaves depend on sum.
func write(ctx context.Context, store storage.Store, n int, sum byte, c digests.Config) (*digests.Result, error) {
	c.Concurrency = 2
	return digests.Write(ctx, store, "f", c, func(ctx context.Context, put *digests.Writer) (*digest.Root, error) {
		tree, err := digest.Build(ctx, func(yield func(digest.Entry, error) bool) {
			for i := range n {
				e := digest.Entry{Key: fmt.Sprintf("%06d", i)}
				if i < 2 {
					e.Sum[0] = sum
				}
				if !yield(e, nil) {
					return
				}
			}
		}, put)
		return &digest.Root{Feed: snapshot.FeedPosition{URL: "../../feeds/f"}, Tree: tree}, err
	})
}

// count reads all keys of a digest.
func count(ctx context.Context, store storage.Store, id string) (n int, err error) {
	root, err := digests.Read(ctx, store, "f", id)
	if err != nil {
		return 0, err
	}
	r := &digest.Reader{Root: root, Objects: digests.Objects(store, "f")}
	for _, err := range r.In(ctx, digest.All) {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// checkAll checks that each digest in the store is complete, and that a collection after two days
// leaves only the objects of the newest digest.
func checkAll(t *testing.T, store storage.Store, atLeast int) {
	t.Helper()
	ids, err := digests.List(t.Context(), store, "f")
	if err != nil || len(ids) < atLeast {
		t.Fatalf("%d digests, want %d: %v", len(ids), atLeast, err)
	}
	for _, id := range ids {
		if n, err := count(t.Context(), store, id); err != nil || n != keys {
			t.Fatalf("digest %s has %d keys: %v", id, n, err)
		}
	}
	time.Sleep(48 * time.Hour)
	if _, err := digests.Collect(t.Context(), store, "f"); err != nil {
		t.Fatal(err)
	}
	want := 0
	if len(ids) > 0 {
		newest := ids[len(ids)-1]
		if n, err := count(t.Context(), store, newest); err != nil || n != keys {
			t.Fatalf("after collecting, digest %s has %d keys: %v", newest, n, err)
		}
		want = objects
	}
	left := 0
	for _, err := range store.List(t.Context(), layout.DigestsPrefix, "") {
		if err != nil {
			t.Fatal(err)
		}
		left++
	}
	if left != want {
		t.Fatalf("%d objects are left, want %d", left, want)
	}
}

const (
	keys    = 3000
	objects = 1 + 1 + 4 // root, node, leaves
)

// TestFaults makes each operation of a writer and of a collection fail. Every digest that exists is
// complete, and the remains of incomplete ones are collected.
func TestFaults(t *testing.T) {
	writing := faulttest.Path{
		Name: "write",
		Setup: func(t *testing.T, store storage.Store) {
			if _, err := write(t.Context(), store, keys, 1, digests.Config{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(20 * time.Hour) // makes the writer write existing objects again
		},
		Do: func(ctx context.Context, store storage.Store) error {
			_, err := write(ctx, store, keys, 2, digests.Config{})
			return err
		},
		Check: func(t *testing.T, store storage.Store, _ bool) { checkAll(t, store, 1) },
	}
	collecting := faulttest.Path{
		Name: "collect",
		Setup: func(t *testing.T, store storage.Store) {
			for sum := range byte(3) {
				if _, err := write(t.Context(), store, keys, sum, digests.Config{}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(25 * time.Hour)
			}
		},
		Do: func(ctx context.Context, store storage.Store) error {
			_, err := digests.Collect(ctx, store, "f")
			return err
		},
		Check: func(t *testing.T, store storage.Store, _ bool) {
			newest, err := digests.Newest(t.Context(), store, "f")
			if err != nil {
				t.Fatal(err)
			}
			if n, err := count(t.Context(), store, newest); err != nil || n != keys {
				t.Fatalf("the newest digest has %d keys: %v", n, err)
			}
		},
	}
	faulttest.Run(t, []faulttest.Path{writing, collecting})
}

// TestCollectWhileWriting runs a collection before each operation of a writer. The objects that the
// writer finds were written two days ago, and their digest has been removed, but the new digest is
// still complete.
func TestCollectWhileWriting(t *testing.T) {
	for n := int64(0); ; n++ {
		last := false
		synctest.Test(t, func(t *testing.T) {
			store := memory.New()
			old, err := write(t.Context(), store, keys, 1, digests.Config{})
			if err != nil {
				t.Fatal(err)
			}
			if err := store.Delete(t.Context(), layout.DigestRoot("f", old.ID)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(48 * time.Hour)
			var operations atomic.Int64
			result, err := write(t.Context(), fault.Wrap(store, func(fault.Op) fault.Outcome {
				if operations.Add(1) == n+1 {
					if _, err := digests.Collect(t.Context(), store, "f"); err != nil {
						t.Error(err)
					}
				}
				return fault.Pass
			}), keys, 1, digests.Config{})
			if err != nil {
				t.Fatal(err)
			}
			if got, err := count(t.Context(), store, result.ID); err != nil || got != keys {
				t.Errorf("collected before operation %d: %d keys, %v", n, got, err)
			}
			last = n >= operations.Load()
		})
		if last {
			return
		}
	}
}

// TestBase: a digest that reuses leaves comes into existence only if its base still exists.
func TestBase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		base, err := write(t.Context(), store, keys, 1, digests.Config{})
		if err != nil {
			t.Fatal(err)
		}
		root := layout.DigestRoot("f", base.ID)
		stats := 0
		_, err = write(t.Context(), fault.Wrap(store, func(o fault.Op) fault.Outcome {
			if o.Key == root {
				if stats++; stats == 2 { // delete the base after the new root was written
					if err := store.Delete(t.Context(), root); err != nil {
						t.Error(err)
					}
				}
			}
			return fault.Pass
		}), keys, 2, digests.Config{Base: base.ID})
		if !errors.Is(err, digests.ErrBase) {
			t.Errorf("base removed meanwhile: error is %v", err)
		}
		if ids, err := digests.List(t.Context(), store, "f"); err != nil || len(ids) > 0 {
			t.Errorf("digests %v exist: %v", ids, err)
		}
		if _, err := write(t.Context(), store, keys, 2, digests.Config{Base: base.ID}); !errors.Is(err, digests.ErrBase) {
			t.Errorf("base missing: error is %v", err)
		}
	})
}

// TestKept: a digest can be read for a day after it was replaced by a newer one.
func TestKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		old, err := write(t.Context(), store, keys, 1, digests.Config{})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Hour)
		if _, err := write(t.Context(), store, keys, 2, digests.Config{}); err != nil {
			t.Fatal(err)
		}
		for _, after := range []time.Duration{23 * time.Hour, 2 * time.Hour} {
			time.Sleep(after)
			removed, err := digests.Collect(t.Context(), store, "f")
			if err != nil {
				t.Fatal(err)
			}
			n, err := count(t.Context(), store, old.ID)
			if gone := after < 3*time.Hour; gone != errors.Is(err, storage.ErrNotFound) || gone == (n == keys) || gone != (removed == 3) {
				t.Errorf("%v later: %d keys, %d objects removed, %v", after, n, removed, err)
			}
		}
	})
}

// TestCorrupt: damaged roots are not returned.
func TestCorrupt(t *testing.T) {
	store := memory.New()
	made, err := write(t.Context(), store, 10, 1, digests.Config{})
	if err != nil {
		t.Fatal(err)
	}
	key := layout.DigestRoot("f", made.ID)
	info, err := store.Stat(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	data := faulttest.ReadObject(t, store, key)
	for i := range len(data) * 8 {
		damaged := append([]byte(nil), data...)
		damaged[i/8] ^= 1 << (i % 8)
		if info.Version, err = store.Replace(t.Context(), key, info.Version, info.Meta, storage.Bytes(damaged)); err != nil {
			t.Fatal(err)
		}
		if _, err := digests.Read(t.Context(), store, "f", made.ID); !errors.Is(err, digests.ErrCorrupt) {
			t.Errorf("bit %d: %v", i, err)
		}
	}
	other := layout.DigestRoot("g", made.ID)
	if _, err := store.Create(t.Context(), other, info.Meta, storage.Bytes(data)); err != nil {
		t.Fatal(err)
	}
	if _, err := digests.Read(t.Context(), store, "g", made.ID); !errors.Is(err, digests.ErrCorrupt) {
		t.Errorf("the root of another feed: %v", err)
	}
}

// TestWriteWhileCollecting writes a digest before each operation of a collection that is about to
// remove objects that the digest needs. The digest lacks at most the object that is removed right
// after it was written, and the next digest is complete.
func TestWriteWhileCollecting(t *testing.T) {
	for n := 0; ; n++ {
		last := false
		synctest.Test(t, func(t *testing.T) {
			store := memory.New()
			old, err := write(t.Context(), store, keys, 1, digests.Config{})
			if err != nil {
				t.Fatal(err)
			}
			if err := store.Delete(t.Context(), layout.DigestRoot("f", old.ID)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(48 * time.Hour)
			operations := 0
			var during fault.Op
			if _, err := digests.Collect(t.Context(), fault.Wrap(store, func(o fault.Op) fault.Outcome {
				if operations++; operations == n+1 {
					during = o
					if _, err := write(t.Context(), store, keys, 1, digests.Config{}); err != nil {
						t.Error(err)
					}
				}
				return fault.Pass
			}), "f"); err != nil {
				t.Fatal(err)
			}
			if last = n >= operations; last {
				return
			}
			left := 0
			for _, err := range store.List(t.Context(), layout.DigestNodes("f"), "") {
				if err != nil {
					t.Fatal(err)
				}
				left++
			}
			if missing := objects - 1 - left; missing > 1 || missing == 1 && during.Verb != fault.Delete {
				t.Errorf("written before operation %d, %v: %d objects are missing", n, during, missing)
			}
			next, err := write(t.Context(), store, keys, 1, digests.Config{})
			if err != nil {
				t.Fatal(err)
			}
			if got, err := count(t.Context(), store, next.ID); err != nil || got != keys {
				t.Errorf("the next digest has %d keys, %v", got, err)
			}
		})
		if last {
			return
		}
	}
}
