package digest

import (
	"context"
	"iter"
)

// A Getter gets nodes and leaves by their names. It may return wrong bytes, since they are verified
// afterwards.
type Getter interface {
	Get(ctx context.Context, name Hash) ([]byte, error)
}

// A Reader reads the nodes and leaves below a root. Everything it returns has been verified
// against the root: names, hashes, counts, ranges and order.
type Reader struct {
	Root    *Root
	Objects Getter
}

// NodeRange returns the range of node i of the root.
func (r *Reader) NodeRange(i int) Range { return RangeOf(r.Root.Nodes, i, All) }

// Leaves returns the leaves of node i of the root. The range of leaf j is
// RangeOf(leaves, j, r.NodeRange(i)).
func (r *Reader) Leaves(ctx context.Context, i int) ([]Child, error) {
	node := r.Root.Nodes[i]
	data, err := r.Objects.Get(ctx, node.Object)
	if err != nil {
		return nil, err
	}
	return ParseNode(data, node, r.NodeRange(i))
}

// Entries returns the entries of a leaf, given its range.
func (r *Reader) Entries(ctx context.Context, leaf Child, of Range) ([]Entry, error) {
	data, err := r.Objects.Get(ctx, leaf.Object)
	if err != nil {
		return nil, err
	}
	return ParseLeaf(data, leaf, of)
}

// In yields the entries with keys in a range, in order, and reads only nodes and leaves with such
// keys. It needs memory for one node and one leaf. An error ends the iteration.
func (r *Reader) In(ctx context.Context, keys Range) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for i := range r.Root.Nodes {
			of := r.NodeRange(i)
			if !overlap(of, keys) {
				continue
			}
			leaves, err := r.Leaves(ctx, i)
			if err != nil {
				yield(Entry{}, err)
				return
			}
			for j, leaf := range leaves {
				of := RangeOf(leaves, j, of)
				if overlap(of, keys) && !r.yield(ctx, leaf, of, keys, yield) {
					return
				}
			}
		}
	}
}

// yield yields the entries of a leaf, and reports whether to continue.
func (r *Reader) yield(ctx context.Context, leaf Child, of, keys Range, yield func(Entry, error) bool) bool {
	entries, err := r.Entries(ctx, leaf, of)
	if err != nil {
		yield(Entry{}, err)
		return false
	}
	for _, e := range entries {
		if keys.Contains(e.Key) && !yield(e, nil) {
			return false
		}
	}
	return true
}

// overlap reports whether two ranges may have keys in common.
func overlap(a, b Range) bool {
	return (a.To == "" || b.From < a.To) && (b.To == "" || a.From < b.To)
}
