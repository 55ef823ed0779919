package producer

import (
	"bytes"
	"fmt"
	"slices"
)

// A batch is what one commit takes from the queue.
type batch struct {
	items    []item // still to be written
	bytes    int64
	spools   int
	requests int
	// checkpointed is the one request with a checkpoint that a batch may have.
	checkpointed *request
	// twins have the Content-ID of an item, and share its fate.
	twins map[idHash][]item
}

// accepts reports whether the batch has room for the request.
func (b *batch) accepts(r *request, bytes int64, entities int) bool {
	return !b.full(bytes, entities) && (r.checkpoint == nil || b.checkpointed == nil)
}

func (b *batch) full(bytes int64, entities int) bool {
	return b.bytes >= bytes || len(b.items) >= entities
}

func (b *batch) add(r *request) {
	b.items = append(b.items, r.items...)
	b.bytes += r.bytes
	b.spools += r.spools
	b.requests++
	if r.checkpoint != nil {
		b.checkpointed = r
	}
}

// settle takes out of the batch what need not be written: a request that continues
// from a checkpoint that is not there; and, with check, items that are in the feed.
// Of items with the same Content-ID in the batch the first one stays.
func (f *Feed) settle(b *batch, check bool) {
	f.settleCheckpoint(b, check)
	if check {
		f.settleDuplicates(b)
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
	b.dropTwins(r)
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

// settleDuplicates ends the items that are in the feed.
func (f *Feed) settleDuplicates(b *batch) {
	seen := make(map[idHash]bool, len(b.items))
	kept := b.items[:0]
	for _, i := range b.items {
		_, written := f.tail.recent.page(i.id)
		switch {
		case written:
			f.found(i)
			b.complete(i)
		case seen[i.id]:
			b.twin(i)
		default:
			seen[i.id] = true
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

func (b *batch) twin(i item) {
	if b.twins == nil {
		b.twins = map[idHash][]item{}
	}
	b.twins[i.id] = append(b.twins[i.id], i)
}

// dropTwins ends the twins that belong to a request that has been ended.
func (b *batch) dropTwins(r *request) {
	for id, twins := range b.twins {
		rest := twins[:0]
		for _, i := range twins {
			if i.request == r {
				i.end()
			} else {
				rest = append(rest, i)
			}
		}
		b.twins[id] = rest
	}
}

// take completes the items that are on the pages that were written.
func (f *Feed) take(b *batch, done []*write) {
	n := done[len(done)-1].items
	w := 0
	for k, i := range b.items[:n] {
		for done[w].items <= k {
			w++
		}
		number := done[w].page.Number
		if f.tail.recent.fresh {
			f.tail.recent.add(number, i.id)
		}
		i.published(number)
		b.complete(i)
	}
	b.items = b.items[n:]
}

// published notes in the receipt that the item is on page n.
func (i item) published(n int64) {
	r := &i.request.receipt
	r.Published++
	r.Page, r.ContentID = n, i.entity.ContentID
}

// complete takes one item off its request, which is done with its last, and its
// twins off theirs: they are in the feed as well.
func (b *batch) complete(i item) {
	i.end()
	for _, twin := range b.twins[i.id] {
		twin.request.receipt.Duplicates++
		twin.end()
	}
	delete(b.twins, i.id)
}

// end takes one item off its request.
func (i item) end() {
	if i.request.left--; i.request.left == 0 {
		close(i.request.done)
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
	for _, twins := range b.twins {
		b.items = append(b.items, twins...)
	}
	for _, i := range b.items {
		i.request.err = i.request.unknown(err)
	}
	b.keep(func(item) bool { return false })
}

// unknown says that nobody can tell what became of the request, unless the store
// refused all that was ever sent to it of it.
func (r *request) unknown(err error) error {
	if r.tried {
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	return err
}
