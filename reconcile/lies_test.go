package reconcile_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"testing"

	"github.com/feedctl/feedctl/digest"
)

// A liar changes what it returns for one object.
type liar struct {
	*objects
	of     digest.Hash
	change func([]byte) ([]byte, error)
}

func (l *liar) Get(ctx context.Context, name digest.Hash) ([]byte, error) {
	data, err := l.objects.Get(ctx, name)
	if err == nil && name == l.of {
		return l.change(data)
	}
	return data, err
}

// TestLies: whatever is wrong with a digest, the result is an error and the copy is not changed.
func TestLies(t *testing.T) {
	w := newWorld(t)
	w.publish(5000)
	w.consume()
	w.sql("INSERT INTO zones VALUES ('zzz', 'text/plain', '', '', '{}', 'x')")
	w.sql("DELETE FROM zones WHERE key = ?1", key(1))
	d, read := w.digest()
	leaves, err := d.Leaves(t.Context(), 0)
	if err != nil || len(leaves) < 4 {
		t.Fatal(len(leaves), err)
	}
	missing := errors.New("404")
	flip := func(b []byte) ([]byte, error) { c := append([]byte(nil), b...); c[len(c)/2] ^= 1; return c, nil }
	short := func(b []byte) ([]byte, error) { return b[:len(b)-200], nil }
	gone := func([]byte) ([]byte, error) { return nil, missing }
	node, leaf := d.Root.Nodes[0].Object, leaves[len(leaves)-1].Object
	for name, l := range map[string]*liar{
		"node changed": {read, node, flip}, "node short": {read, node, short}, "node missing": {read, node, gone},
		"leaf changed": {read, leaf, flip}, "leaf short": {read, leaf, short}, "leaf missing": {read, leaf, gone},
		"leaf empty":   {read, leaf, func([]byte) ([]byte, error) { return nil, nil }},
		"another leaf": {read, leaf, func([]byte) ([]byte, error) { return read.m[leaves[0].Object], nil }},
	} {
		c := w.config(&digest.Reader{Root: d.Root, Objects: l})
		if _, err := w.run(c, true); !errors.Is(err, digest.ErrInvalid) && !errors.Is(err, missing) {
			t.Errorf("%s: %v, want an error", name, err)
		}
		w.untouched(name)
	}

	// Nodes that match their names, but have a hole or a wrong count.
	for name, change := range map[string]func([]digest.Child) []digest.Child{
		"hole at the start": func(l []digest.Child) []digest.Child { return l[1:] },
		"hole at the end":   func(l []digest.Child) []digest.Child { return l[:len(l)-1] },
		"count":             func(l []digest.Child) []digest.Child { l[0].Count--; return l },
		"hash":              func(l []digest.Child) []digest.Child { l[0].Hash[0] ^= 1; return l },
		"order":             func(l []digest.Child) []digest.Child { l[1], l[2] = l[2], l[1]; return l },
	} {
		root, o := *d.Root, &objects{m: map[digest.Hash][]byte{}}
		for name, data := range read.m {
			o.m[name] = data
		}
		data := encodeNode(change(append([]digest.Child(nil), leaves...)))
		name32 := digest.Hash(sha256.Sum256(data))
		o.m[name32] = data
		root.Nodes = append([]digest.Child(nil), root.Nodes...)
		root.Nodes[0].Object = name32
		if _, err := w.run(w.config(&digest.Reader{Root: &root, Objects: o}), true); !errors.Is(err, digest.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
		w.untouched(name)
	}
}

// untouched fails the test unless the copy still has the row that is not in the feed.
func (w *world) untouched(what string) {
	w.t.Helper()
	c := w.config(nil)
	contents, err := c.Open(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	defer contents.Close()
	n, extra := 0, false
	for row, err := range contents.Rows(w.t.Context(), "", "") {
		if err != nil {
			w.t.Fatal(err)
		}
		n++
		extra = extra || row.Key == "zzz"
	}
	if n != 5000 || !extra {
		w.t.Errorf("%s: the copy has %d rows, want 5000; has the extra one: %v", what, n, extra)
	}
}
