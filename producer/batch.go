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
	added      int           // number of items that were ever in the batch
	taken      int           // number of items that were written and removed
	publishers int           // number of requests that the last write completed, plus those that were waiting then
	took       time.Duration // how long the last write took
	// checkpointed is the request with a checkpoint; a batch has at most one. The checkpoint is
	// written together with item number checkpointAfter.
	checkpointed    *request
	checkpointAfter int
	// ids holds the Content-IDs of the items, or is nil if it is not known which items are in the
	// feed.
	ids map[idHash]struct{}
	// duplicates holds further items with the Content-ID of an item in the batch. They get the outcome
	// of that item.
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

// settle removes from the batch what need not be written: a request that does not continue from the
// feed's checkpoint and, with check, items that are in the feed. Of several items with the same
// Content-ID, the first stays.
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
	// With nothing left to write, the checkpoint waits for the next write.
	if r := b.checkpointed; r != nil && r.left == 0 {
		if r.err == nil && !bytes.Equal(r.checkpoint, f.tail.checkpoint()) {
			f.tail.postpone(r.checkpoint)
		}
		b.checkpointed = nil
	}
}

// settleCheckpoint ends the request with a checkpoint if it does not continue from the
// feed's checkpoint, or if all of it is in the feed.
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

// checkpointAt returns the index of the item with which the batch's checkpoint is stored, or -1 if
// there is none. It is the last item of the request with the checkpoint or, if all items that are left
// of that request are duplicates of others, the last item of the batch.
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

// settleDuplicates ends the items at or after the given index that are in the feed.
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

// found adds an item that is in the feed to the receipt.
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

// tried reports whether an item may be in the feed because of the batch's own writes.
func (b *batch) tried() bool {
	return slices.ContainsFunc(b.items, func(i item) bool { return i.tried })
}

// mayBeInFeed reports whether an item may be in the feed: because of the batch's own writes, or
// because its publisher chose a Content-ID that may have been published before.
func (b *batch) mayBeInFeed() bool {
	return slices.ContainsFunc(b.items, func(i item) bool { return i.tried || i.given })
}

// known returns a page before which, according to the publishers, none of the items is in the feed, or
// 0 if a publisher does not know one.
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

// dropFollowers ends the items at or after the given index whose request must come after a request
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

// take completes the items that are on a page that was written.
func (f *Feed) take(b *batch, w *write) {
	number := w.page.Number
	// Publishers are counted before requests end, so that a publisher that publishes again at once
	// counts once.
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

// published adds an item that was written to page n to the receipt.
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
		r.after = nil // otherwise no request could be garbage collected
		r.release()
		clear(r.items) // frees the bodies: the next request refers to r, and a Writer to its last request
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

// fail ends all requests that are not complete.
func (b *batch) fail(err error) {
	b.restoreDuplicates()
	for _, i := range b.items {
		i.request.err = i.request.unknown(err)
	}
	b.keep(func(item) bool { return false })
}

// unknown returns the error of a request that ends with err. The error matches ErrUnknown as well,
// unless none of the entities is in the feed or will be.
func (r *request) unknown(err error) error {
	if r.tried {
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	return err
}
