package digest

import (
	"context"
	"errors"
	"fmt"
	"iter"
)

// A Putter stores nodes and leaves. Put is called for each of them with its name and bytes; it
// must not keep the bytes. An object that already exists need not be written again.
type Putter interface {
	Put(ctx context.Context, name Hash, data []byte) error
}

// Build stores the nodes and leaves of a state, and returns its tree. The entries must be in the
// byte order of their keys. Build needs memory for one leaf, one node and the tree, which has one
// node for every 300,000 keys or so.
func Build(ctx context.Context, entries iter.Seq2[Entry, error], put Putter) (Tree, error) {
	b := NewBuilder(ctx, put, nil)
	for e, err := range entries {
		if err == nil {
			err = b.Add(e)
		}
		if err != nil {
			return Tree{}, err
		}
	}
	return b.Finish()
}

// A Builder builds a tree from entries, and from unchanged leaves of an earlier digest, in the
// order of their keys. It must not be used after an error.
type Builder struct {
	ctx  context.Context
	put  Putter
	done func(Child) error

	last    string // the greatest key so far
	started bool
	ended   bool // Reuse has ended the leaf, so the next key begins another leaf

	leaf   cutter
	from   string // of the current leaf
	hasher LeafHasher
	lines  *lines

	node   cutter
	leaves []Child // of the current node
	tree   Tree
}

// ErrOrder means that a key is not greater than the previous key.
var ErrOrder = errors.New("keys are not in the order of their bytes")

// NewBuilder returns a Builder. If the function leaf is not nil, it is called with each leaf that
// was stored or is reused.
func NewBuilder(ctx context.Context, put Putter, leaf func(Child) error) *Builder {
	return &Builder{ctx: ctx, put: put, done: leaf, leaf: leafCutter(), node: nodeCutter(), lines: newLines()}
}

// Cuts reports whether a leaf begins at the given key if this key is added next.
func (b *Builder) Cuts(key string) bool { return b.ended || b.leaf.cuts(key) }

// Add adds an entry.
func (b *Builder) Add(e Entry) error {
	switch {
	case e.Key == "" || len(e.Key) > MaxKey:
		return fmt.Errorf("build digest: key has %d bytes, must have 1 to %d", len(e.Key), MaxKey)
	case b.started && e.Key <= b.last:
		return fmt.Errorf("build digest: %w: %q after %q", ErrOrder, e.Key, b.last)
	}
	if b.Cuts(e.Key) {
		if err := b.endLeaf(); err != nil {
			return err
		}
		b.from = e.Key
	}
	b.last, b.started, b.ended = e.Key, true, false
	b.leaf.add(e.Key)
	b.hasher.Add(e.Key, e.Sum)
	if err := b.lines.entry(e); err != nil {
		return fmt.Errorf("build digest: key %q: %w", e.Key, err)
	}
	return nil
}

// Reuse adds a leaf of an earlier digest that is still stored. It must be the first leaf, or
// [Builder.Cuts] must report true for its From. The caller must know that the keys of the leaf are
// unchanged, and that the first key of the next leaf still exists, so that the next leaf begins
// there again.
func (b *Builder) Reuse(leaf Child) error {
	begins := leaf.From == "" && !b.started || b.started && leaf.From > b.last && b.Cuts(leaf.From)
	if !begins || leaf.Count < 1 {
		return fmt.Errorf("build digest: leaf from %q cannot be reused after key %q: %w", leaf.From, b.last, ErrOrder)
	}
	if err := b.endLeaf(); err != nil {
		return err
	}
	b.last, b.started, b.ended = leaf.From, true, true
	return b.addLeaf(leaf)
}

// endLeaf stores the current leaf, if it has keys.
func (b *Builder) endLeaf() error {
	if b.leaf.count == 0 {
		return nil
	}
	leaf := Child{From: b.from, Count: b.hasher.Count(), Hash: b.hasher.Sum()}
	name, data, err := b.lines.object()
	if err == nil {
		err = b.put.Put(b.ctx, name, data)
	}
	if err != nil {
		return fmt.Errorf("build digest: leaf from %q: %w", leaf.From, err)
	}
	leaf.Object = name
	b.leaf.end()
	b.hasher = LeafHasher{}
	b.lines.buf.Reset()
	return b.addLeaf(leaf)
}

// addLeaf adds a stored leaf to the current node.
func (b *Builder) addLeaf(leaf Child) error {
	if b.node.cuts(leaf.From) {
		if err := b.endNode(); err != nil {
			return err
		}
	}
	b.node.add(leaf.From)
	b.leaves = append(b.leaves, leaf)
	if b.done == nil {
		return nil
	}
	return b.done(leaf)
}

// endNode stores the current node, if it has leaves.
func (b *Builder) endNode() error {
	if len(b.leaves) == 0 {
		return nil
	}
	node := Child{From: b.leaves[0].From, Count: count(b.leaves), Hash: NodeHash(b.leaves)}
	name, data, err := encodeNode(b.leaves)
	if err == nil {
		err = b.put.Put(b.ctx, name, data)
	}
	if err != nil {
		return fmt.Errorf("build digest: node from %q: %w", node.From, err)
	}
	node.Object = name
	b.tree.Nodes = append(b.tree.Nodes, node)
	b.node.end()
	b.leaves = b.leaves[:0]
	return nil
}

// Finish stores the last leaf and node, and returns the tree.
func (b *Builder) Finish() (Tree, error) {
	if err := b.endLeaf(); err != nil {
		return Tree{}, err
	}
	if err := b.endNode(); err != nil {
		return Tree{}, err
	}
	b.tree.Count, b.tree.Hash = count(b.tree.Nodes), RootHash(b.tree.Nodes)
	return b.tree, nil
}
