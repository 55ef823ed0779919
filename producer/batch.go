package producer

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"time"
)

// A batch is what one commit takes from the queue, at its beginning and while it
// is under way.
type batch struct {
	items      []item // still to be written
	bytes      int64
	spools     int
	added      int           // items that ever were in it
	taken      int           // items that were written and taken out
	publishers int           // whose requests the last write completed, or who waited then
	took       time.Duration // by the last write
	// checkpointed is the one request with a checkpoint that a batch may have. Its
	// checkpoint is written with the last of so many items that are first in items.
	checkpointed    *request
	checkpointAfter int
	// ids has the Content-IDs of items, if those that are in the feed are known; nil
	// if not.
	ids map[idHash]struct{}
	// twins are duplicates of an item in the batch, with its Content-ID and outcome.
	twins map[idHash][]item
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

// settle takes out of the batch what need not be written: a request that continues
// from a checkpoint that is not there; and, with check, items that are in the feed.
// Of items with the same Content-ID in the batch the first one stays.
func (f *Feed) settle(b *batch, check bool) {
	if check {
		b.untwin()
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

// settleCheckpoint ends the request with a checkpoint if that does not continue
// from the feed's, or if it has been published whole.
func (f *Feed) settleCheckpoint(b *batch, check bool) {
	r := b.checkpointed
	if r == nil {
		return
	}
	last := b.checkpointAt()
	checkpoint := f.tail.checkpoint()
	if r.left == 0 { // its publisher has been told
		if !bytes.Equal(r.previous, checkpoint) {
			b.checkpointed = nil
		}
		return
	}
	whole := false
	if last >= 0 && check && b.items[last].request == r {
		i := b.items[last]
		_, written := f.tail.recent.page(i.id)
		// Items are written in order: with the last, all are in the feed.
		whole = written && (i.tried || bytes.Equal(r.checkpoint, checkpoint))
	}
	switch {
	case whole:
	case bytes.Equal(r.previous, checkpoint):
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

// checkpointAt returns the index of the item with which the batch's checkpoint is
// stored, or -1: the last of its request, or the last of all if others have the same
// Content-IDs as what is left of it.
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

// settleDuplicates ends those items from the given index on that are in the feed.
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
			b.twin(i)
		default:
			b.ids[i.id] = struct{}{}
			kept = append(kept, i)
		}
	}
	b.items = kept
}

// found notes in the receipt that the item is in the feed.
func (f *Feed) found(i item) {
	if n, _ := f.tail.recent.page(i.id); i.tried {
		i.published(n)
	} else {
		i.request.receipt.Duplicates++
	}
}

// markTried notes that item n may be in the feed, and so may its twins.
func (b *batch) markTried(n int) {
	i := &b.items[n]
	i.tried, i.request.tried = true, true
	for _, twin := range b.twins[i.id] {
		twin.request.tried = true
	}
}

// tried reports whether something of the batch may be in the feed by its own writes.
func (b *batch) tried() bool {
	return slices.ContainsFunc(b.items, func(i item) bool { return i.tried })
}

// doubtful reports whether something of the batch may be in the feed: by its own writes, or
// as its publisher gave it a Content-ID under which it was published before.
func (b *batch) doubtful() bool {
	return slices.ContainsFunc(b.items, func(i item) bool { return i.tried || i.given })
}

func (b *batch) twin(i item) {
	if b.twins == nil {
		b.twins = map[idHash][]item{}
	}
	b.twins[i.id] = append(b.twins[i.id], i)
}

// dropFollowers ends those items from the given index on whose request is to come
// after one that was not published.
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

// untwin puts the twins back among the items, each where it belongs.
func (b *batch) untwin() {
	if len(b.twins) == 0 {
		return
	}
	for _, twins := range b.twins {
		b.items = append(b.items, twins...)
	}
	b.twins = nil
	slices.SortFunc(b.items, func(a, b item) int { return cmp.Compare(a.place, b.place) })
}

// take completes the items that are on a page that was written.
func (f *Feed) take(b *batch, w *write) {
	number := w.page.Number
	// Counted before they are told: who then comes back at once is not another one.
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
	clear(b.items[:w.items]) // so that they can be collected
	b.items = b.items[w.items:]
	b.taken += w.items
	if b.checkpointAfter -= w.items; b.checkpointAfter <= 0 {
		b.checkpointed = nil // it has been stored
	}
}

// published notes in the receipt that the item is on page n.
func (i item) published(n int64) {
	r := &i.request.receipt
	r.Published++
	r.Page, r.ContentID = n, i.entity.ContentID
}

// complete takes one item, which is in the feed, off its request, and its twins off theirs.
func (b *batch) complete(i item) {
	i.request.tried = true
	i.end()
	for _, twin := range b.twins[i.id] {
		twin.request.receipt.Duplicates++
		twin.request.tried = true
		twin.end()
	}
	delete(b.twins, i.id)
}

// end takes one item off its request.
func (i item) end() {
	r := i.request
	if r.left--; r.left == 0 {
		r.after = nil // or nobody could ever forget a request
		r.release()
		close(r.done)
	}
}

// keep ends the items for which want is false and takes them out.
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
	b.untwin()
	for _, i := range b.items {
		i.request.err = i.request.unknown(err)
	}
	b.keep(func(item) bool { return false })
}

// unknown returns the error of a request that ends with err: ErrUnknown as well, unless none
// of its entities is in the feed, and none will be.
func (r *request) unknown(err error) error {
	if r.tried {
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	return err
}
