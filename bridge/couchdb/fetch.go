package couchdb

import (
	"context"
	"fmt"

	"golang.org/x/sync/semaphore"

	"github.com/feedctl/feedctl/couchdb"
)

// chunkBytes limits the documents of a chunk that wait in memory, in bytes.
const chunkBytes = 1 << 20

// A chunk is a list of documents that are fetched with one request while earlier ones are
// being published. There is one [fetched] for each element of asks, in the same order.
type chunk struct {
	asks []couchdb.IDRev
	docs chan fetched
	room *semaphore.Weighted
}

// fetched is a document, or the error that ends the chunk.
type fetched struct {
	doc    *couchdb.Doc
	failed bool // this document could not be fetched; the receiver must retry
	err    error
	weight int64         // of chunkBytes
	read   chan struct{} // the receiver closes it when it has read doc.Stream
}

// fetch fetches the documents. After a failure it requests the rest again, and half as many at
// a time if none was received: the request may have been too large, or one document may break
// the response. A document that fails alone is left to the receiver.
func (c *chunk) fetch(ctx context.Context, b *Bridge) {
	retry := b.core.NewRetry()
	most := len(c.asks)
	for asks := c.asks; len(asks) > 0; {
		some := asks[:min(most, len(asks))]
		n, err := c.request(ctx, b, some)
		asks = asks[n:]
		if err == nil && n < len(some) {
			err = fmt.Errorf("read document %q: %w: the response ends before it", asks[0].ID, couchdb.ErrMalformed)
		}
		switch {
		case err == nil:
			retry.Reset()
			continue
		case n > 0:
			retry.Reset()
		case len(some) > 1 && ofDocument(err):
			most = len(some) / 2
		case ofDocument(err):
			if c.send(ctx, fetched{failed: true}) != nil {
				return
			}
			asks = asks[1:]
		}
		if !ofDocument(err) {
			err = retry.Again(ctx, err)
		} else if couchdb.Retryable(err) {
			err = retry.Wait(ctx)
		} else {
			err = nil
		}
		if err != nil {
			_ = c.send(ctx, fetched{err: err}) // unless ctx has ended
			return
		}
	}
}

// request fetches the documents with one request and returns how many were received.
func (c *chunk) request(ctx context.Context, b *Bridge, asks []couchdb.IDRev) (n int, err error) {
	for doc, err := range b.config.Source.BulkGet(ctx, asks, b.getOptions()) {
		if err != nil {
			return n, err
		}
		if n == len(asks) || doc.ID != asks[n].ID || doc.Rev != asks[n].Rev {
			return n, fmt.Errorf("read documents: %w: unexpected document %q, revision %q", couchdb.ErrMalformed, doc.ID, doc.Rev)
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
	c.docs <- f // never blocks: its capacity is the number of documents
	return nil
}

// next returns the next document. The caller must close the channel in its field read, unless that
// is nil.
func (c *chunk) next(ctx context.Context) (fetched, error) {
	select {
	case f := <-c.docs:
		c.room.Release(f.weight)
		return f, f.err
	case <-ctx.Done():
		return fetched{}, context.Cause(ctx)
	}
}

// getOptions returns the options for reading documents.
func (b *Bridge) getOptions() couchdb.GetOptions {
	o := couchdb.GetOptions{Revs: b.config.Revs, Once: true}
	switch b.config.Attachments {
	case Inline:
		o.Attachments = couchdb.Inline
	case Multipart:
		o.Attachments = couchdb.Multipart
	}
	return o
}
