package digest_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/digest"
)

// A state holds the sum of each key.
type state map[string]digest.Sum

func (s state) entries() iter.Seq2[digest.Entry, error] {
	return func(yield func(digest.Entry, error) bool) {
		for _, key := range slices.Sorted(maps.Keys(s)) {
			if !yield(digest.Entry{Key: key, Sum: s[key], ContentID: "<" + key + ">", Page: 1}, nil) {
				return
			}
		}
	}
}

func build(t testing.TB, s state, o objects) digest.Tree {
	t.Helper()
	tree, err := digest.Build(context.Background(), s.entries(), o)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// leavesOf returns the leaves of a tree and their ranges.
func leavesOf(t testing.TB, tree digest.Tree, o objects) (leaves []digest.Child, ranges []digest.Range) {
	t.Helper()
	r := &digest.Reader{Root: &digest.Root{Tree: tree}, Objects: o}
	for i := range tree.Nodes {
		of, err := r.Leaves(context.Background(), i)
		if err != nil {
			t.Fatal(err)
		}
		for j := range of {
			ranges = append(ranges, digest.RangeOf(of, j, r.NodeRange(i)))
		}
		leaves = append(leaves, of...)
	}
	return leaves, ranges
}

func numbered(n int) state {
	s := state{}
	for i := range n {
		s[fmt.Sprint("key ", i)] = digest.Sum{byte(i)}
	}
	return s
}

// isCut reports whether a key begins a leaf because of its hash.
func isCut(key string, bits uint) bool {
	sum := sha256.Sum256([]byte(key))
	return binary.BigEndian.Uint64(sum[:])>>(64-bits) == 0
}

// chosen returns a state of n keys for which ok returns true.
func chosen(n int, ok func(string) bool) state {
	s := state{}
	for i := 0; len(s) < n; i++ {
		if key := fmt.Sprintf("%012d", i); ok(key) {
			s[key] = digest.Sum{1}
		}
	}
	return s
}

// TestLimits: whatever the keys are, leaves and nodes stay within their limits, and together cover and contain
// all keys.
func TestLimits(t *testing.T) {
	long := state{}
	for i := range 300 {
		long[fmt.Sprintf("%s%d", strings.Repeat("long ", 4000), i)] = digest.Sum{}
	}
	for name, s := range map[string]state{
		"none": {}, "one": numbered(1), "usual": numbered(50_000), "long": long,
		"each key begins a leaf": chosen(4000, func(key string) bool { return isCut(key, 10) }),
		"no key begins a leaf":   chosen(20_000, func(key string) bool { return !isCut(key, 10) }),
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			o := objects{}
			tree := build(t, s, o)
			leaves, ranges := leavesOf(t, tree, o)
			for i, leaf := range leaves {
				last := i == len(leaves)-1
				if leaf.Count > digest.MaxLeaf || leaf.Count < digest.MinLeaf && !last && name != "long" {
					t.Errorf("leaf %d has %d keys", i, leaf.Count)
				}
				if i > 0 && ranges[i].From != ranges[i-1].To || i == 0 && ranges[i].From != "" || last && ranges[i].To != "" {
					t.Errorf("range of leaf %d begins at %q, the one before ends at %q", i, ranges[i].From, ranges[max(i, 1)-1].To)
				}
			}
			for _, data := range o {
				if len(data) > 4*digest.MaxLeafKeys+digest.MaxLeaf*1000 {
					t.Errorf("object of %d bytes", len(data))
				}
			}
			got := state{}
			r := &digest.Reader{Root: &digest.Root{Tree: tree}, Objects: o}
			for e, err := range r.In(t.Context(), digest.All) {
				if err != nil {
					t.Fatal(err)
				}
				got[e.Key] = e.Sum
			}
			if !maps.Equal(got, s) || tree.Count != int64(len(s)) {
				t.Errorf("digest has %d keys, says %d, want %d", len(got), tree.Count, len(s))
			}
		})
	}
}

// TestEveryChange: any change of one or two keys changes the hash of the root, and makes only a few new objects.
func TestEveryChange(t *testing.T) {
	const keys = 10_000
	rng := rand.New(rand.NewPCG(1, 2))
	before := objects{}
	s := numbered(keys)
	tree := build(t, s, before)
	for n := range 40 {
		after, key := maps.Clone(s), fmt.Sprint("key ", rng.IntN(keys))
		other := fmt.Sprint("key ", rng.IntN(keys))
		switch n % 4 {
		case 0:
			delete(after, key)
		case 1:
			after["new "+key] = digest.Sum{}
		case 2:
			sum := after[key]
			sum[15] ^= 1
			after[key] = sum
		case 3:
			after[key], after[other] = after[other], after[key]
		}
		if maps.Equal(s, after) {
			continue
		}
		o := maps.Clone(before)
		changed := build(t, after, o)
		if changed.Hash == tree.Hash {
			t.Errorf("change %d of %q does not change the hash", n%4, key)
		}
		if added := len(o) - len(before); n%4 == 2 && added != 2 || added > 8 {
			t.Errorf("change %d of %q makes %d objects", n%4, key, added)
		}
	}
}

// TestTwoHashes: different Content-IDs and places change the objects, but not the hashes.
func TestTwoHashes(t *testing.T) {
	one, other := objects{}, objects{}
	s := numbered(2000)
	a := build(t, s, one)
	b, err := digest.Build(t.Context(), func(yield func(digest.Entry, error) bool) {
		for e := range s.entries() {
			e.ContentID, e.Page, e.Offset = strings.Repeat("x", 300), 7, 100
			if !yield(e, nil) {
				return
			}
		}
	}, other)
	if err != nil {
		t.Fatal(err)
	}
	if a.Hash != b.Hash || a.Nodes[0].Hash != b.Nodes[0].Hash || a.Nodes[0].Object == b.Nodes[0].Object {
		t.Errorf("nodes are %v and %v", a.Nodes, b.Nodes)
	}
	leavesOf(t, b, other) // the leaves can be read, since a Content-ID that is too long is left out
}

// TestSummary: from a copy of the state, the same hashes are computed for any node.
func TestSummary(t *testing.T) {
	o := objects{}
	s := numbered(60_000)
	for i := 0; ; i++ {
		if key := fmt.Sprint("key 9-", i); isCut(key, 18) {
			s[key] = digest.Sum{} // begins a node
			break
		}
	}
	tree := build(t, s, o)
	if len(tree.Nodes) < 2 {
		t.Fatalf("%d nodes", len(tree.Nodes))
	}
	r := &digest.Reader{Root: &digest.Root{Tree: tree}, Objects: o}
	keys := slices.Sorted(maps.Keys(s))
	for i, node := range tree.Nodes {
		of := r.NodeRange(i)
		sums := digest.NewSummary(of.From)
		for _, key := range keys {
			if of.Contains(key) {
				sums.Add(key, s[key])
			}
		}
		if mine := sums.Leaves(); digest.NodeHash(mine) != node.Hash {
			t.Errorf("node %d: hash is %s, want %s", i, digest.NodeHash(mine), node.Hash)
		}
	}
	if digest.RootHash(tree.Nodes) != tree.Hash {
		t.Error("hash of the root is not that of its nodes")
	}
}

// TestIn reads parts of a digest. Only the objects needed are read.
func TestIn(t *testing.T) {
	o := objects{}
	s := numbered(20_000)
	r := &digest.Reader{Root: &digest.Root{Tree: build(t, s, o)}, Objects: o}
	keys := slices.Sorted(maps.Keys(s))
	for _, of := range []digest.Range{
		{}, {From: "key 5"}, {To: "key 5"}, {From: keys[0], To: keys[1]}, {From: "key 77", To: "key 78"}, {From: "z"}, {To: "a"}, {From: "key 3", To: "key 3"},
	} {
		var got, want []string
		for e, err := range r.In(t.Context(), of) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, e.Key)
		}
		for _, key := range keys {
			if of.Contains(key) {
				want = append(want, key)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", of, diff)
		}
	}
}

func TestBuildRejects(t *testing.T) {
	for name, keys := range map[string][]string{
		"the same key": {"a", "a"}, "wrong order": {"b", "a"}, "no key": {""}, "too long": {strings.Repeat("x", digest.MaxKey+1)},
	} {
		b := digest.NewBuilder(t.Context(), objects{}, nil)
		var err error
		for _, key := range keys {
			err = errors.Join(err, b.Add(digest.Entry{Key: key}))
		}
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	b := digest.NewBuilder(t.Context(), objects{}, nil)
	if err := b.Add(digest.Entry{Key: "a"}); err != nil {
		t.Fatal(err)
	}
	if err := b.Reuse(digest.Child{From: "b", Count: 1}); !errors.Is(err, digest.ErrOrder) {
		t.Errorf("a leaf where none begins: %v", err)
	}
}
