package couchdb

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/feedctl/feedctl/couchdb"
)

// chunkBytes is how many bytes of documents of a chunk may wait in memory.
const chunkBytes = 1 << 20

// A chunk is some documents that are fetched with one request, while those before them
// are being published. There is one [fetched] for each ask, in their order.
type chunk struct {
	asks []couchdb.IDRev
	docs chan fetched
	room *semaphore.Weighted
}

// A fetched is a document, or why there are no more.
type fetched struct {
	doc    *couchdb.Doc
	err    error
	weight int64         // of chunkBytes
	read   chan struct{} // closed when doc.Stream is not needed any more
}

func newChunk() *chunk {
	return &chunk{docs: make(chan fetched, fetchDocs), room: semaphore.NewWeighted(chunkBytes)}
}

// fetch fetches the documents. What fails for a reason that may pass is asked for again:
// with fewer documents at a time if none has come, as they may have been too much at once.
func (c *chunk) fetch(ctx context.Context, b *Bridge) {
	retry := b.newRetry()
	most := len(c.asks)
	for asks := c.asks; len(asks) > 0; {
		some := asks[:min(most, len(asks))]
		n, err := c.request(ctx, b, some)
		asks = asks[n:]
		if err == nil && n < len(some) {
			err = fmt.Errorf("read document %q: %w: the answer ends before it", asks[0].ID, couchdb.ErrMalformed)
		}
		if n > 0 {
			retry.reset()
		} else {
			most = max(len(some)/2, 1)
		}
		if err != nil {
			if err := retry.again(ctx, err); err != nil {
				_ = c.send(ctx, fetched{err: err}) // or the receiver has gone
				return
			}
		}
	}
}

// request fetches the documents with one request and returns how many have come.
func (c *chunk) request(ctx context.Context, b *Bridge, asks []couchdb.IDRev) (n int, err error) {
	for doc, err := range b.config.Source.BulkGet(ctx, asks, b.getOptions()) {
		if err != nil {
			return n, err
		}
		if n == len(asks) || doc.ID != asks[n].ID || doc.Rev != asks[n].Rev {
			return n, fmt.Errorf("read documents: %w: document %q, revision %q, was not asked for", couchdb.ErrMalformed, doc.ID, doc.Rev)
		}
		f := fetched{doc: doc}
		if doc.Body != nil && doc.Body.Bytes() != nil {
			f.weight = min(doc.Body.Size(), chunkBytes)
		}
		if doc.Stream != nil {
			f.read = make(chan struct{})
		}
		if err := c.send(ctx, f); err != nil {
			return n, err
		}
		n++
		if f.read != nil {
			select {
			case <-f.read:
			case <-ctx.Done():
				return n, context.Cause(ctx)
			}
		}
	}
	return n, nil
}

func (c *chunk) send(ctx context.Context, f fetched) error {
	if err := c.room.Acquire(ctx, f.weight); err != nil {
		return context.Cause(ctx)
	}
	c.docs <- f // there is room for as many as were asked for, and an error in place of one
	return nil
}

// next returns the next document. The caller closes read, if there is one.
func (c *chunk) next(ctx context.Context) (fetched, error) {
	select {
	case f := <-c.docs:
		c.room.Release(f.weight)
		return f, f.err
	case <-ctx.Done():
		return fetched{}, context.Cause(ctx)
	}
}

// getOptions says how documents are read.
func (b *Bridge) getOptions() couchdb.GetOptions {
	o := couchdb.GetOptions{Revs: b.config.Revs}
	switch b.config.Attachments {
	case Inline:
		o.Attachments = couchdb.Inline
	case Multipart:
		o.Attachments = couchdb.Multipart
	}
	return o
}

// A retry decides whether something is tried again, and waits before. The client has
// repeated the request as such: this is about answers that break off, and about sources
// that are away for longer.
type retry struct {
	pause    func(context.Context, time.Duration) error
	patient  bool // wait for a source that is away, however long
	attempts int
}

func (b *Bridge) newRetry() retry { return retry{pause: b.pause, patient: b.config.Follow} }

func (r *retry) reset() { r.attempts = 0 }

// again returns nil after a pause, or an error if there is no point in it.
func (r *retry) again(ctx context.Context, err error) error {
	const limit = 8
	if !couchdb.Retryable(err) || ctx.Err() != nil {
		return err
	}
	if r.attempts++; r.attempts == limit {
		if !r.patient || !away(err) {
			return err
		}
		r.attempts--
	}
	return r.pause(ctx, jitter(min(250*time.Millisecond<<r.attempts, 30*time.Second)))
}

// away reports whether an error is about the source as a whole, so that it says nothing
// about what was asked for.
func away(err error) bool {
	var status *couchdb.Error
	if errors.As(err, &status) {
		switch status.Status {
		case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return true
		}
		return false
	}
	var network *net.OpError
	return errors.As(err, &network) && network.Op == "dial"
}

// fetchOne fetches one document and gives it to use, before the next is read.
func (b *Bridge) fetchOne(ctx context.Context, p pair, use func(*couchdb.Doc) error) error {
	retry := b.newRetry()
	for {
		err := b.requestOne(ctx, p, use)
		if err == nil {
			return nil
		}
		if err := retry.again(ctx, err); err != nil {
			return err
		}
	}
}

func (b *Bridge) requestOne(ctx context.Context, p pair, use func(*couchdb.Doc) error) error {
	for doc, err := range b.config.Source.BulkGet(ctx, []couchdb.IDRev{{ID: p.id, Rev: p.rev}}, b.getOptions()) {
		if err != nil {
			return err
		}
		return use(doc)
	}
	return fmt.Errorf("read document %q, revision %q: %w: the answer is empty", p.id, p.rev, couchdb.ErrMalformed)
}
