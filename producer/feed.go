// Package producer writes feeds into a store, prunes them and deletes them.
//
// A [Feed] appends entities to a feed. Only the newest page changes: a commit is one conditional write
// of that page, or of the page after it, and the metadata of the written page is the whole record of
// the commit. There is no journal, no lease and no recovery: when a producer starts, it reads the
// newest page, just as it does after losing a race. Any number of producers, in any number of
// processes, may publish to one feed.
//
// Several pages are written at the same time, each with the digest of the page before. They become
// visible in order, when the chain reaches them. Pages that a killed producer left behind beyond the
// end of the chain are never visible, and are replaced.
package producer

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/draft"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/storage"
)

// An Entity is one change to publish.
type Entity = feed.Entity

// A Receipt is the result of publishing entities.
type Receipt struct {
	Published  int // entities that were written
	Duplicates int // entities whose Content-IDs were already in the feed
	// Page and ContentID identify the last entity that was written.
	Page      int64
	ContentID string
}

// A Feed publishes to one feed. Its methods may be called concurrently.
type Feed struct {
	name   string
	store  storage.Store
	config Config

	chain *chain.Reader
	clock *clock
	tail  tail // owned by the goroutine that commits
	turn  turn // owned by the goroutine that commits
	queue queue
	room  *semaphore.Weighted // for the bytes that may wait for their commit
	// Content-IDs made by this producer consist of idStart (random), a number and idEnd.
	idStart, idEnd string
	count          atomic.Uint64

	free   []draft.Memory    // for pages; owned by the goroutine that commits
	header feed.HeaderBuffer // owned by the goroutine that commits
	stop   context.CancelFunc
	closed chan struct{}
}

// Open returns a producer for a feed. It reads the store's clock, but not the feed, which is created
// when the first entity is published.
func Open(ctx context.Context, store storage.Store, name string, c Config) (*Feed, error) {
	if err := layout.CheckName(name); err != nil {
		return nil, fmt.Errorf("open producer: %w", err)
	}
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	clock, err := newClock(ctx, store, c)
	if err != nil {
		return nil, fmt.Errorf("open producer of feed %q: %w", name, err)
	}
	// Close ends commits; the end of a publisher's context does not.
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	f := &Feed{
		name: name, store: store, config: c,
		chain: chain.NewReader(store, name), clock: clock,
		tail:    tail{recent: newRecent()},
		queue:   newQueue(),
		room:    semaphore.NewWeighted(c.MaxWaiting),
		idStart: "<" + rand.Text() + "-", idEnd: "@" + name + ">",
		stop: stop, closed: make(chan struct{}),
	}
	go f.run(ctx)
	return f, nil
}

// Publish appends entities to the feed, in order and without other entities between them. If the error
// is nil, the entities are durable, and come after all entities of calls that returned before this
// call began.
//
// An entity without a Content-ID gets one, and an entity without a trace context gets that of ctx
// ([feed.ContextWithTrace]). An entity whose Content-ID is already on one of the feed's 16 newest
// pages is not written again, so publishing may be repeated (but see [Batch].Known). LastModified is
// set by the commit, not by the caller. The body of an entity with a Stream is spooled to disk first.
//
// After an error that matches ErrUnknown, all of the entities or the first few may be in the feed;
// after any other error, none of them is. If ctx ends before the commit has begun, nothing is
// published; if the commit has begun, Publish waits for it, for at most Config.RetryFor.
func (f *Feed) Publish(ctx context.Context, entities ...*Entity) (Receipt, error) {
	return f.publish(ctx, entities, Batch{})
}

// PublishBatch is like [Feed.Publish], but also stores a checkpoint.
func (f *Feed) PublishBatch(ctx context.Context, b Batch) (Receipt, error) {
	return f.publish(ctx, b.Entities, b)
}

// publish publishes the entities of a batch. The entities are a separate parameter because everything
// to which b refers escapes to the heap. This way, callers of Publish need not allocate their slice.
func (f *Feed) publish(ctx context.Context, entities []*Entity, b Batch) (Receipt, error) {
	r, err := f.begin(ctx, entities, b)
	if err != nil {
		return Receipt{}, err
	}
	return r.publication.wait(ctx)
}

// A Publication is a batch that is being published.
type Publication struct{ request *request }

// Begin is like [Feed.PublishBatch], but does not wait until the batch is durable. It returns as soon
// as there is room for the batch (Config.MaxWaiting). The entities must not be changed before Wait has
// returned. To publish many batches in order, use a [Writer], or set [Batch].After, and [Batch].More
// for all but the last batch.
func (f *Feed) Begin(ctx context.Context, b Batch) (*Publication, error) {
	r, err := f.begin(ctx, b.Entities, b)
	if err != nil {
		return nil, err
	}
	return &r.publication, nil
}

// Wait returns when the batch is durable or has failed. Errors are those of [Feed.Publish].
func (p *Publication) Wait() (Receipt, error) {
	<-p.request.done
	if err := p.request.err; err != nil {
		return Receipt{}, fmt.Errorf("publish to feed %q: %w", p.request.feed.name, err)
	}
	return p.request.receipt, nil
}

// wait is like Wait, but withdraws the batch if ctx ends before the commit of the batch has begun.
func (p *Publication) wait(ctx context.Context) (Receipt, error) {
	select {
	case <-p.request.done:
	case <-ctx.Done():
		feed := p.request.feed
		err := fmt.Errorf("publish to feed %q: wait for the commit: %w", feed.name, context.Cause(ctx))
		if feed.queue.withdraw(p.request, err) {
			p.request.release()
			return Receipt{}, err
		}
	}
	return p.Wait()
}

// begin waits for room and then adds the batch to the queue.
func (f *Feed) begin(ctx context.Context, entities []*Entity, b Batch) (_ *request, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("publish to feed %q: %w", f.name, err)
		}
	}()
	r, err := f.newRequest(ctx, entities, b)
	if err != nil {
		return nil, err
	}
	if err := f.room.Acquire(ctx, r.weight); err != nil {
		r.discard()
		return nil, fmt.Errorf("wait for earlier publishes: %w", err)
	}
	if !f.queue.add(r) {
		r.release()
		return nil, ErrClosed
	}
	return r, nil
}

// Seen tells the producer which page another reader of the feed has found to be the newest, so that
// the producer need not search for it. That reader must not have found any page beyond the newest one
// ([chain.Reader.Beyond]), since the producer would have to examine such a page.
func (f *Feed) Seen(newest *chain.Page) { f.chain.Remember(newest) }

// Checkpoint returns the feed's checkpoint, or nil if there is none.
func (f *Feed) Checkpoint(ctx context.Context) ([]byte, error) {
	return ReadCheckpoint(ctx, f.store, f.name)
}

// ReadCheckpoint returns the checkpoint in a feed's newest page, or nil if there is none.
func ReadCheckpoint(ctx context.Context, store storage.Store, name string) ([]byte, error) {
	newest, err := newestOrNil(ctx, chain.NewReader(store, name))
	if err != nil || newest == nil {
		return nil, err
	}
	return newest.Checkpoint, nil
}

// Close waits until everything that was submitted has been written or has failed, and ends the
// producer.
func (f *Feed) Close() error {
	f.queue.close()
	<-f.closed
	f.stop()
	return nil
}

// Abort ends the producer without waiting for the store: unfinished commits fail with
// ErrUnknown.
func (f *Feed) Abort() {
	f.stop()
	_ = f.Close()
}

// buffer returns memory for the bytes that are added to a page.
func (f *Feed) buffer() draft.Memory {
	if n := len(f.free); n > 0 {
		m := f.free[n-1]
		f.free = f.free[:n-1]
		return m
	}
	return draft.Memory{}
}

// release returns memory that is no longer in use to f, so that it can be used again.
func (f *Feed) release(m draft.Memory) {
	if int64(m.Cap()) <= 2*f.config.MaxPageBytes {
		f.free = append(f.free, m)
	}
}

// trimBuffers frees all but a few buffers, which are kept for later commits.
func (f *Feed) trimBuffers() {
	const idle = 4
	if len(f.free) > idle {
		clear(f.free[idle:])
		f.free = f.free[:idle]
	}
}

func (f *Feed) key(n int64) string { return layout.FeedPage(f.name, n) }

// contentID returns a new Content-ID in the form of a msg-id (RFC 5322).
func (f *Feed) contentID() string {
	id := append(make([]byte, 0, 128), f.idStart...)
	id = strconv.AppendUint(id, f.count.Add(1), 10)
	return string(append(id, f.idEnd...))
}
