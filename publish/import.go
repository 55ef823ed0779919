package publish

import (
	"cmp"
	"context"
	"iter"

	"github.com/feedctl/feedctl/feed"
)

// A Target makes entities durable, in order: [Client.Ordered], or a feed in a store.
type Target interface {
	// Begin starts to publish entities after those of all earlier calls, if these
	// succeed. More means that another call follows at once. The returned function
	// waits until the entities are durable. A batch that was begun is not interrupted
	// when ctx ends.
	Begin(ctx context.Context, entities []*feed.Entity, more bool) (wait func() (Receipt, error), err error)
}

// An Import publishes an input from its beginning to its end. The faster the input, the larger the
// batches. With a State it continues where an earlier one ended or was killed.
type Import struct {
	To       Target
	Entities iter.Seq2[*feed.Entity, error]
	// Tell, if not nil, is called first, with a function that the input must call with false
	// when it starts to wait and with true when it has more: while it waits, entities read so
	// far are published. Without Tell, the input is assumed to wait always.
	Tell func(busy func(bool))
	// Memory limits the memory for entities being published, in bytes, in addition to one
	// batch. 0 means 4 MiB.
	Memory int64
	// State, if not nil, stores how far the input was published.
	State *State
	// PageEntities and PageBytes are the limits of the feed's pages, needed with a State: the
	// entities being published at a time must fit onto the pages on which Content-IDs are
	// recognized. 0 means the defaults of a feed, 10,000 and 1 MiB.
	PageEntities int
	PageBytes    int64
	// Progress, if not nil, is called after each batch.
	Progress func(Result)
}

// A Result is the result of an [Import].
type Result struct {
	// Skipped counts entities at the start of the input that were published before,
	// according to the State.
	Skipped int64
	// Acknowledged counts the entities published after them, including Duplicates, and Bytes
	// is the size of their bodies, without those of streams.
	Acknowledged, Published, Duplicates, Bytes int64
	// Last is the receipt of the last batch.
	Last Receipt
}

// importing is one run of an Import.
type importing struct {
	*Import
	queue  *queue
	result Result
}

// Run publishes the input and returns when it is durable. When ctx ends, Run finishes the
// batches that were begun, so that their outcome is known; it does not wait for a blocked
// read of the input.
func (im *Import) Run(ctx context.Context) (Result, error) {
	p := &importing{Import: im}
	p.queue = newQueue(cmp.Or(im.Memory, 4<<20))
	if im.State != nil {
		p.result.Skipped = im.State.Published
		p.queue.fit(cmp.Or(im.PageEntities, 10_000), cmp.Or(im.PageBytes, 1<<20))
	}
	err := p.run(ctx)
	return p.result, err
}

func (p *importing) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	q := p.queue
	defer q.watch(ctx)()
	if p.Tell != nil {
		p.Tell(q.reads)
	}
	skip := p.result.Skipped
	go p.read(ctx, skip)
	begun := make(chan publication, 64)
	var end error // of the input, or of a batch that could not begin
	go func() {
		defer close(begun)
		end = p.begin(ctx, begun)
	}()
	var failed error
	for b := range begun {
		receipt, err := b.wait()
		if err == nil && failed == nil {
			err = p.finish(b.entities, receipt)
		}
		if err != nil && failed == nil {
			failed = err
			cancel()
		}
	}
	if failed != nil {
		return failed
	}
	return end
}

// A publication is a batch that was begun.
type publication struct {
	entities []*feed.Entity
	wait     func() (Receipt, error)
}

// begin begins one batch after another until the input or ctx ends.
func (p *importing) begin(ctx context.Context, begun chan<- publication) error {
	for {
		batch, more, err := p.queue.take(ctx)
		if err != nil || len(batch) == 0 {
			return err
		}
		wait, err := p.To.Begin(ctx, batch, more)
		if err != nil {
			return err
		}
		begun <- publication{batch, wait}
	}
}

// read adds the entities after the first skip ones of the input to the queue.
func (p *importing) read(ctx context.Context, skip int64) {
	q, n := p.queue, int64(0)
	for e, err := range p.Entities {
		if n++; err == nil && n <= skip {
			err = p.State.check(n, e)
		}
		if err != nil {
			q.close(err)
			return
		}
		if n > skip && !q.add(ctx, e) {
			break
		}
	}
	err := ctx.Err()
	if err == nil && p.State != nil {
		err = p.State.checkEnd(n, skip)
	}
	q.close(err)
}

// finish records that a batch is durable.
func (p *importing) finish(batch []*feed.Entity, receipt Receipt) error {
	p.queue.published(batch)
	r := &p.result
	r.Bytes += bodies(batch)
	r.Published += int64(receipt.Published)
	r.Duplicates += int64(receipt.Duplicates)
	r.Acknowledged += int64(len(batch))
	r.Last = receipt
	var err error
	if p.State != nil {
		err = p.State.save(r.Skipped+r.Acknowledged, batch[len(batch)-1])
	}
	if p.Progress != nil {
		p.Progress(*r)
	}
	return err
}
