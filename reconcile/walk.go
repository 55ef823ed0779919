package reconcile

import (
	"context"
	"fmt"
	"iter"

	"github.com/feedctl/feedctl/digest"
	"github.com/feedctl/feedctl/sink"
)

// walk compares node after node. Every range of the digest is half-open, the first has no lower bound and
// the last no upper bound, so that together they cover all keys of the sink.
func (r *run) walk(ctx context.Context) error {
	d := r.Digest
	if len(d.Root.Nodes) == 0 {
		return r.keyByKey(ctx, r.all, nil, false)
	}
	for i, node := range d.Root.Nodes {
		of := d.NodeRange(i)
		if _, empty := clip(of, r.all); empty {
			continue
		}
		if err := r.node(ctx, i, node, of); err != nil {
			return err
		}
	}
	return nil
}

// node compares a node with the rows in its range and, if they differ, compares the leaves of the node.
func (r *run) node(ctx context.Context, i int, node digest.Child, of digest.Range) error {
	part, _ := clip(of, r.all)
	var mine []digest.Child
	counted := r.about.Whole && part == of
	if counted {
		var err error
		if mine, err = r.summarize(ctx, of); err != nil {
			return err
		}
		later, err := r.isLater(of)
		if err != nil {
			return err
		}
		if mine != nil && !later && digest.NodeHash(mine) == node.Hash {
			return r.equal(ctx, of, node.Count)
		}
	}
	leaves, err := r.Digest.Leaves(ctx, i)
	if err != nil {
		return err
	}
	next := 0 // of mine
	for j, leaf := range leaves {
		of := digest.RangeOf(leaves, j, of)
		part, empty := clip(of, r.all)
		if empty {
			continue
		}
		for next < len(mine) && mine[next].From < leaf.From {
			next++
		}
		same, read := false, counted
		switch {
		case counted:
			same, err = r.sameLeaf(mine, next, leaf, of)
		case r.about.Whole && part == of:
			same, err = r.hashLeaf(ctx, leaf, of)
			read = true
		}
		if err == nil && same {
			err = r.equal(ctx, of, leaf.Count)
		} else if err == nil {
			err = r.leaf(ctx, leaf, of, part, read)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sameLeaf reports whether the rows in the range of a leaf are those of the leaf: mine[n] has the same first
// key, count and hash, and no row after those of mine[n] is in the range.
func (r *run) sameLeaf(mine []digest.Child, n int, leaf digest.Child, of digest.Range) (bool, error) {
	if n >= len(mine) || mine[n].From != leaf.From || mine[n].Count != leaf.Count || mine[n].Hash != leaf.Hash {
		return false, nil
	}
	if n+1 < len(mine) && (of.To == "" || mine[n+1].From < of.To) {
		return false, nil
	}
	later, err := r.isLater(of)
	return !later, err
}

// hashLeaf reads the rows in the range of a leaf, and reports whether they are those of the leaf.
func (r *run) hashLeaf(ctx context.Context, leaf digest.Child, of digest.Range) (bool, error) {
	var hasher digest.LeafHasher
	whole := true
	for row, err := range r.rows(ctx, of) {
		if err != nil {
			return false, err
		}
		r.progress.Rows++
		whole = whole && row.Sum != (digest.Sum{})
		hasher.Add(row.Key, row.Sum)
	}
	later, err := r.isLater(of)
	return err == nil && !later && whole && hasher.Count() == leaf.Count && hasher.Sum() == leaf.Hash, err
}

// isLater reports whether keys in a range have entities between the two positions.
func (r *run) isLater(of digest.Range) (bool, error) {
	for _, err := range r.scratch.between(of) {
		return true, err
	}
	return false, nil
}

// summarize computes the leaves that the rows in the range of a node form. It returns nil if a row has no
// sum.
func (r *run) summarize(ctx context.Context, of digest.Range) ([]digest.Child, error) {
	s, whole := digest.NewSummary(of.From), true
	for row, err := range r.rows(ctx, of) {
		if err != nil {
			return nil, err
		}
		if r.progress.Rows++; r.progress.Rows%1024 == 0 {
			r.report()
		}
		whole = whole && row.Sum != (digest.Sum{})
		s.Add(row.Key, row.Sum)
	}
	if leaves := s.Leaves(); whole {
		return leaves, nil
	}
	return nil, nil
}

// rows yields the rows of a range, and checks that they belong to the range and are in order.
func (r *run) rows(ctx context.Context, of digest.Range) iter.Seq2[sink.Row, error] {
	return func(yield func(sink.Row, error) bool) {
		last, begun := "", false
		for row, err := range r.contents.Rows(ctx, of.From, of.To) {
			if err == nil && (begun && row.Key <= last || !of.Contains(row.Key)) {
				err = fmt.Errorf("%w: %q after %q in the range from %q to %q", ErrOrder, row.Key, last, of.From, of.To)
			}
			if err == nil && ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			if last, begun = row.Key, true; !yield(row, err) || err != nil {
				return
			}
		}
	}
}

// equal counts the keys of a range in which all rows are equal to those of the feed, and reports the keys if
// All is set.
func (r *run) equal(ctx context.Context, of digest.Range, count int64) error {
	r.progress.Keys += count
	r.report()
	if r.Found == nil || !r.All {
		r.counts.Equal += count
		return nil
	}
	for row, err := range r.rows(ctx, of) {
		if err == nil {
			err = r.found(Equal, row.Key, "")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// leaf compares a leaf with the rows in a part of its range, key by key. counted says whether the rows have
// already been read and counted.
func (r *run) leaf(ctx context.Context, leaf digest.Child, of, part digest.Range, counted bool) error {
	entries, err := r.Digest.Entries(ctx, leaf, of)
	if err != nil {
		return err
	}
	if err := r.keyByKey(ctx, part, entries, counted); err != nil {
		return err
	}
	r.progress.Keys += leaf.Count
	r.report()
	return nil
}
