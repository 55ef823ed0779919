package producer

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"time"
)

// A batch holds the requests that a commit has taken from the queue, when it began and while it was
// under way.
type batch struct {
	items      []item // still to be written
	bytes      int64
	spools     int
	added      int           // number of items that have ever been in the batch
	taken      int           // number of items that have been written and removed
	publishers int           // number of requests that the last write completed, plus the number of requests that were waiting then
	took       time.Duration // how long the last write took
	// checkpointed is the request with a checkpoint; a batch has at most one. The checkpoint is
	// written together with item number checkpointAfter.
	checkpointed    *request
	checkpointAfter int
	// ids holds the Content-IDs of the items, or is nil if it is not known which items are in the
	// feed.
	ids map[idHash]struct{}
	// duplicates holds further items that have the same Content-ID as an item of the batch. Their
	// outcome is that of this item.
	duplicates map[idHash][]item
}

func (b *batch) add(r *request) {
	for _, i := range r.items {
		b.added++
		i.place = b.added
		b.items = append(b.items, i)
	}
	b.bytes += r.bytes
	b.spools += r.spools
	if r.checkpoint != nil {
		b.checkpointed = r
	}
}

// settle removes from the batch everything that need not be written: a request that does not continue
// from the feed's checkpoint and, if check is true, items that are already in the feed. Of several
// items with the same Content-ID, the first is kept.
func (f *Feed) settle(b *batch, check bool) {
	if check {
		b.restoreDuplicates()
	}
	f.settleCheckpoint(b, check)
	b.dropFollowers(0)
	if check {
		b.ids = make(map[idHash]struct{}, len(b.items))
		f.settleDuplicates(b, 0)
	}
	// If there is nothing left to write, the checkpoint waits for the next write.
	if r := b.checkpointed; r != nil && r.left == 0 {
		if r.err == nil && !bytes.Equal(r.checkpoint, f.tail.checkpoint()) {
			f.tail.postpone(r.checkpoint)
		}
		b.checkpointed = nil
	}
}

// settleCheckpoint ends the request with a checkpoint if it does not continue from the feed's
// checkpoint, or if all its items are in the feed.
func (f *Feed) settleCheckpoint(b *batch, check bool) {
	r := b.checkpointed
	if r == nil {
		return
	}
	last := b.checkpointAt()
	checkpoint := f.tail.checkpoint()
	if r.left == 0 { // the request has ended
		if !f.tail.precedes(r.previous) {
			b.checkpointed = nil
		}
		return
	}
	whole := false
	if last >= 0 && check && b.items[last].request == r {
		i := b.items[last]
		_, written := f.tail.recent.page(i.id)
		// Items are written in order: if the last one is in the feed, all are.
		whole = written && (i.tried || bytes.Equal(r.checkpoint, checkpoint))
	}
	switch {
	case whole:
	case f.tail.precedes(r.previous):
		return
	default:
		r.err = r.unknown(fmt.Errorf("%w: the feed has %q, the batch continues from %q", ErrCheckpoint, checkpoint, r.previous))
	}
	b.checkpointed = nil
	b.keep(func(i item) bool {
		if i.request == r && whole {
			f.found(i)
		}
		return i.request != r
	})
}

// checkpointAt returns the index of the item together with which the batch's checkpoint is stored, or
// -1 if the batch has no checkpoint. It is the last item of the request with the checkpoint or, if
// only duplicates of other requests' items are left of that request, the last item of the batch.
func (b *batch) checkpointAt() int {
	if b.checkpointed == nil {
		return -1
	}
	for n, i := range slices.Backward(b.items) {
		if i.request == b.checkpointed {
			return n
		}
	}
	return len(b.items) - 1
}

// settleDuplicates ends those items, starting at the given index, that are already in the feed.
func (f *Feed) settleDuplicates(b *batch, from int) {
	kept := b.items[:from]
	for _, i := range b.items[from:] {
		_, written := f.tail.recent.page(i.id)
		_, pending := b.ids[i.id]
		switch {
		case written:
			f.found(i)
			b.complete(i)
		case pending:
			b.addDuplicate(i)
		default:
			b.ids[i.id] = struct{}{}
			kept = append(kept, i)
		}
	}
	b.items = kept
}

// found records, in the receipt of the item's request, that the item is in the feed.
func (f *Feed) found(i item) {
	if n, _ := f.tail.recent.page(i.id); i.tried {
		i.published(n)
	} else {
		i.request.receipt.Duplicates++
	}
}

// markTried records that item n and its duplicates may be in the feed.
func (b *batch) markTried(n int) {
	i := &b.items[n]
	i.tried, i.request.tried = true, true
	for _, d := range b.duplicates[i.id] {
		d.request.tried = true
	}
}

// tried reports whether any item may be in the feed because the batch has tried to write it.
func (b *batch) tried() bool {
	return slices.ContainsFunc(b.items, func(i item) bool { return i.tried })
}

// mayBeInFeed reports whether any item may be in the feed, because the batch has tried to write it, or
// because its publisher chose its Content-ID, and may have published it before.
func (b *batch) mayBeInFeed() bool {
	return slices.ContainsFunc(b.items, func(i item) bool { return i.tried || i.given })
}

// known returns the number of a page before which there are no items of the batch according to the
// publishers, or 0 if a publisher does not know such a page.
func (b *batch) known() int64 {
	first := b.items[0].request.known
	for _, i := range b.items {
		first = min(first, i.request.known)
	}
	return first
}

func (b *batch) addDuplicate(i item) {
	if b.duplicates == nil {
		b.duplicates = map[idHash][]item{}
	}
	b.duplicates[i.id] = append(b.duplicates[i.id], i)
}

// dropFollowers ends those items, starting at the given index, whose request must come after a request
// that was not published.
func (b *batch) dropFollowers(from int) {
	kept := b.items[:from]
	for _, i := range b.items[from:] {
		r := i.request
		if r.after != nil && r.after.err != nil && r.err == nil {
			r.err = r.unknown(fmt.Errorf("the batch before was not published: %w", r.after.err))
		}
		if r.err == nil {
			kept = append(kept, i)
			continue
		}
		i.end()
		if r == b.checkpointed {
			b.checkpointed = nil
		}
	}
	b.items = kept
}

// restoreDuplicates puts the duplicates back among the items, in order.
func (b *batch) restoreDuplicates() {
	if len(b.duplicates) == 0 {
		return
	}
	for _, duplicates := range b.duplicates {
		b.items = append(b.items, duplicates...)
	}
	b.duplicates = nil
	slices.SortFunc(b.items, func(a, b item) int { return cmp.Compare(a.place, b.place) })
}

// take completes the items on a page that has been written.
func (f *Feed) take(b *batch, w *write) {
	number := w.page.Number
	// Publishers are counted before requests end, so that a publisher that publishes again at once is
	// counted once.
	b.publishers, b.took = f.queue.len(), time.Since(w.begun)
	for _, i := range b.items[:w.items] {
		if f.tail.recent.fresh {
			f.tail.recent.add(number, i.id)
		}
		delete(b.ids, i.id)
		i.published(number)
		b.complete(i)
		if i.request.left == 0 {
			b.publishers++
		}
	}
	clear(b.items[:w.items]) // for the garbage collector
	b.items = b.items[w.items:]
	b.taken += w.items
	if b.checkpointAfter -= w.items; b.checkpointAfter <= 0 {
		b.checkpointed = nil // the checkpoint has been stored
	}
}

// published records, in the receipt of the item's request, that the item was written to page n.
func (i item) published(n int64) {
	r := &i.request.receipt
	r.Published++
	r.Page, r.ContentID = n, i.entity.ContentID
}

// complete ends an item that is in the feed, and its duplicates.
func (b *batch) complete(i item) {
	i.request.tried = true
	i.end()
	for _, d := range b.duplicates[i.id] {
		d.request.receipt.Duplicates++
		d.request.tried = true
		d.end()
	}
	delete(b.duplicates, i.id)
}

// end ends an item, and the request if this was its last item.
func (i item) end() {
	r := i.request
	if r.left--; r.left == 0 {
		r.after = nil // otherwise no request would ever be garbage collected
		r.release()
		clear(r.items) // frees the bodies: r is still referenced by the next request, and by its Writer if it is the last one
		close(r.done)
	}
}

// keep ends and removes the items for which want returns false.
func (b *batch) keep(want func(item) bool) {
	kept := b.items[:0]
	for _, i := range b.items {
		if want(i) {
			kept = append(kept, i)
		} else {
			i.end()
		}
	}
	b.items = kept
}

// fail ends all requests that have not been completed.
func (b *batch) fail(err error) {
	b.restoreDuplicates()
	for _, i := range b.items {
		i.request.err = i.request.unknown(err)
	}
	b.keep(func(item) bool { return false })
}

// unknown returns the error for a request that ends with err. The error also matches ErrUnknown,
// unless it is certain that none of the entities is in the feed or will be.
func (r *request) unknown(err error) error {
	if r.tried {
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	return err
}
