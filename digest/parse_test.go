package digest_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/digest"
	"github.com/feedctl/feedctl/snapshot"
)

// small returns a root that has one node with one leaf of two keys; the encoded root, node and leaf; and the
// leaves of the node.
func small(t testing.TB) (root *digest.Root, encoded, node, leaf []byte, leaves []digest.Child) {
	t.Helper()
	o := objects{}
	tree, err := digest.Build(t.Context(), entries("Bern", "sunny", "Zürich", "rain"), o)
	if err != nil {
		t.Fatal(err)
	}
	root = &digest.Root{
		Feed:     snapshot.FeedPosition{URL: "../../feeds/f", Page: "../../feeds/f/pages/1", LastModified: time.Unix(1, 0).UTC(), ContentID: "<1>"},
		Snapshot: "../../snapshots/f/1", Tree: tree,
	}
	if encoded, err = root.Encode(); err != nil {
		t.Fatal(err)
	}
	node = []byte(o[tree.Nodes[0].Object])
	if leaves, err = digest.ParseNode(node, tree.Nodes[0], digest.All); err != nil {
		t.Fatal(err)
	}
	return root, encoded, node, []byte(o[leaves[0].Object]), leaves
}

func TestRoot(t *testing.T) {
	root, encoded, _, _, _ := small(t)
	got, err := digest.ParseRoot(bytes.NewReader(encoded))
	if diff := cmp.Diff(root, got); diff != "" || err != nil {
		t.Fatalf("%v (-want +got):\n%s", err, diff)
	}
	base, err := url.Parse("https://data.example/x/digests/f/20260102T030405.678Z-c5xnp2qa")
	if err != nil {
		t.Fatal(err)
	}
	if err := got.Resolve(base); err != nil || got.Feed.Page != "https://data.example/x/feeds/f/pages/1" || got.Snapshot != "https://data.example/x/snapshots/f/1" {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestFormat compares encoded digests with fixed bytes, since other implementations must be able to compare
// digests.
func TestFormat(t *testing.T) {
	_, encoded, node, leaf, _ := small(t)
	got := string(encoded) + string(node) + string(leaf)
	const want = `{"digest":1,"feed":{"url":"../../feeds/f","page":"../../feeds/f/pages/1","lastModified":"1970-01-01T00:00:01Z","contentId":"<1>"},"snapshot":"../../snapshots/f/1","count":2,"hash":"7d9e5d9679ff95aa64d57ad14d77a58dc95d6e8fe8de30691134bc395d8745f9"}
{"from":"","count":2,"hash":"fa75027fe7cb6c55979f9e56b158682b5fce23211416dee4479d677a118fc7aa","object":"282ecf852ff24baec6ebc19b4ed5b5d716708d4f0d080c7d5f8a0c4e9d50ca02"}
{"from":"","count":2,"hash":"c578baf5046717f6cc08cb73ea84e926817825dd583e623854ac2cb8eccab683","object":"05c8cff7b89f1831490807851cc789651abe0873b14aad74474c1743a99f96df"}
{"key":"Bern","sum":"4b9be2edcc19a7ef08d4f6f11f9fb4fb"}
{"key":"Z%C3%BCrich","sum":"9f51f24a639c8d611017253c8fbeaa84"}
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestDamage: no node or leaf with a flipped bit or a missing end is accepted, and no root if the damage
// changes what it says about the state.
func TestDamage(t *testing.T) {
	root, encoded, node, leaf, leaves := small(t)
	for name, object := range map[string]struct {
		data  []byte
		parse func([]byte) error
	}{
		"node": {node, func(data []byte) error { _, err := digest.ParseNode(data, root.Nodes[0], digest.All); return err }},
		"leaf": {leaf, func(data []byte) error { _, err := digest.ParseLeaf(data, leaves[0], digest.All); return err }},
		"root": {encoded, func(data []byte) error {
			got, err := digest.ParseRoot(bytes.NewReader(data))
			if err != nil {
				return err
			}
			if got.Count != root.Count || got.Hash != root.Hash || len(got.Nodes) != 1 || got.Nodes[0].Hash != root.Nodes[0].Hash {
				t.Errorf("root with another state is accepted: %s", data)
			}
			return digest.ErrInvalid
		}},
	} {
		for i := range len(object.data) * 8 {
			data := bytes.Clone(object.data)
			data[i/8] ^= 1 << (i % 8)
			if err := object.parse(data); !errors.Is(err, digest.ErrInvalid) && !errors.Is(err, digest.ErrVersion) {
				t.Errorf("%s with bit %d flipped: %v", name, i, err)
			}
		}
		for n := range object.data {
			if err := object.parse(object.data[:n]); !errors.Is(err, digest.ErrInvalid) {
				t.Errorf("%s with %d bytes: %v", name, n, err)
			}
		}
	}
}

// TestWrongClaims: nodes and leaves that break the rules are not accepted, even under the right name.
func TestWrongClaims(t *testing.T) {
	a, b := digest.SumOf("a", "", nil), digest.SumOf("b", "", nil)
	leaf := func(lines string, of digest.Range, keys ...string) error {
		var hash digest.LeafHasher
		for _, key := range keys {
			hash.Add(key, map[string]digest.Sum{"a": a, "b": b}[key])
		}
		lines = strings.NewReplacer("A", a.String(), "B", b.String()).Replace(lines)
		want := digest.Child{From: of.From, Count: hash.Count(), Hash: hash.Sum(), Object: sha256.Sum256([]byte(lines))}
		_, err := digest.ParseLeaf([]byte(lines), want, of)
		return err
	}
	if err := leaf(`{"key":"a","sum":"A","later":1}`+"\n"+`{"key":"b","sum":"B"}`+"\n", digest.All, "a", "b"); err != nil {
		t.Fatalf("valid leaf: %v", err)
	}
	for name, err := range map[string]error{
		"order":          leaf(`{"key":"b","sum":"B"}`+"\n"+`{"key":"a","sum":"A"}`, digest.All, "b", "a"),
		"twice":          leaf(`{"key":"a","sum":"A"}`+"\n"+`{"key":"a","sum":"A"}`, digest.All, "a", "a"),
		"below range":    leaf(`{"key":"a","sum":"A"}`, digest.Range{From: "b"}, "a"),
		"beyond range":   leaf(`{"key":"b","sum":"B"}`, digest.Range{To: "b"}, "b"),
		"count":          leaf(`{"key":"a","sum":"A"}`, digest.All, "a", "b"),
		"sum":            leaf(`{"key":"a","sum":"B"}`, digest.All, "a"),
		"no sum":         leaf(`{"key":"a"}`, digest.All, "a"),
		"no key":         leaf(`{"key":"","sum":"A"}`, digest.All, "a"),
		"other encoding": leaf(`{"key":"%61","sum":"A"}`, digest.All, "a"),
		"blank line":     leaf(`{"key":"a","sum":"A"}`+"\n\n", digest.All, "a"),
		"negative page":  leaf(`{"key":"a","sum":"A","page":-1}`, digest.All, "a"),
	} {
		if !errors.Is(err, digest.ErrInvalid) {
			t.Errorf("leaf with wrong %s: %v", name, err)
		}
	}
	child := func(from string, count int64) digest.Child { return digest.Child{From: from, Count: count} }
	node := func(of digest.Range, count int64, leaves ...digest.Child) error {
		var lines []byte
		for _, c := range leaves {
			line, err := json.Marshal(map[string]any{"from": c.From, "count": c.Count, "hash": c.Hash, "object": c.Object})
			if err != nil {
				t.Fatal(err)
			}
			lines = append(append(lines, line...), '\n')
		}
		want := digest.Child{From: of.From, Count: count, Hash: digest.NodeHash(leaves), Object: sha256.Sum256(lines)}
		_, err := digest.ParseNode(lines, want, of)
		return err
	}
	if err := node(digest.All, 3, child("", 1), child("b", 2)); err != nil {
		t.Fatalf("valid node: %v", err)
	}
	for name, err := range map[string]error{
		"begin":  node(digest.All, 3, child("a", 1), child("b", 2)), // keys below "a" would be in no leaf
		"order":  node(digest.All, 3, child("", 1), child("c", 1), child("b", 1)),
		"twice":  node(digest.All, 2, child("", 1), child("", 1)),
		"beyond": node(digest.Range{To: "b"}, 3, child("", 1), child("b", 2)),
		"count":  node(digest.All, 4, child("", 1), child("b", 2)),
		"empty":  node(digest.All, 1, child("", 1), child("b", 0)),
		"none":   node(digest.All, 0),
	} {
		if !errors.Is(err, digest.ErrInvalid) && name != "none" {
			t.Errorf("node with wrong %s: %v", name, err)
		}
	}
	root, _, data, bytesOfLeaf, leaves := small(t)
	count, hash := leaves[0], root.Nodes[0]
	count.Count++ // as in a node with a wrong count
	if _, err := digest.ParseLeaf(bytesOfLeaf, count, digest.All); !errors.Is(err, digest.ErrInvalid) {
		t.Errorf("leaf with another count: %v", err)
	}
	hash.Hash[0] ^= 1
	if _, err := digest.ParseNode(data, hash, digest.All); !errors.Is(err, digest.ErrInvalid) {
		t.Errorf("node with another hash: %v", err)
	}
	if _, err := digest.ParseRoot(strings.NewReader(`{"digest":2,"later":true}`)); !errors.Is(err, digest.ErrVersion) {
		t.Errorf("root of a later version: %v", err)
	}
}

func FuzzRoot(f *testing.F) {
	_, encoded, _, _, _ := small(f)
	f.Add(encoded)
	f.Fuzz(func(t *testing.T, data []byte) {
		root, err := digest.ParseRoot(bytes.NewReader(data))
		if err != nil {
			return
		}
		again, err := root.Encode()
		if err != nil {
			return // the root has a time that JSON cannot hold
		}
		got, err := digest.ParseRoot(bytes.NewReader(again))
		if err != nil || got.Hash != root.Hash || got.Count != root.Count || !cmp.Equal(got.Nodes, root.Nodes) {
			t.Errorf("%q is read as %+v, then as %+v, %v", data, root, got, err)
		}
	})
}

// FuzzLeaf gives arbitrary bytes the name and hash that they should have.
func FuzzLeaf(f *testing.F) {
	_, _, node, leaf, _ := small(f)
	f.Add(leaf, "", "")
	f.Add(node, "a", "b")
	f.Fuzz(func(t *testing.T, data []byte, from, to string) {
		var hash digest.LeafHasher
		for line := range bytes.Lines(data) {
			var e struct {
				Key string
				Sum digest.Sum
			}
			_ = json.Unmarshal(line, &e)
			if key, err := url.PathUnescape(e.Key); err == nil {
				hash.Add(key, e.Sum)
			}
		}
		of := digest.Range{From: from, To: to}
		want := digest.Child{From: from, Count: hash.Count(), Hash: hash.Sum(), Object: sha256.Sum256(data)}
		entries, err := digest.ParseLeaf(data, want, of)
		if err != nil {
			if !errors.Is(err, digest.ErrInvalid) {
				t.Errorf("error is %v", err)
			}
			return
		}
		for i, e := range entries {
			if !of.Contains(e.Key) || i > 0 && e.Key <= entries[i-1].Key || int64(len(entries)) != want.Count {
				t.Errorf("%q is read as %+v", data, entries)
			}
		}
	})
}
