package publish

import (
	"cmp"
	"context"
	"iter"

	"golang.org/x/sync/semaphore"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/producer"
)

// A Target publishes entities durably and in order. It is [Client.Ordered], or a feed in a store.
type Target interface {
	// Begin begins to publish entities after the entities of all earlier calls, if those calls
	// succeed. It reads all Streams before it returns. If more is true, another call follows at
	// once. The returned function waits until the entities are durable. A batch that has been begun
	// is not interrupted when ctx ends.
	Begin(ctx context.Context, entities []*feed.Entity, more bool) (wait func() (Receipt, error), err error)
}

// ToFeed returns a target that publishes to a feed in a store. The name is that of the feed, for
// use in receipts.
func ToFeed(name string, f *producer.Feed) Target { return &stored{name: name, feed: f} }

type stored struct {
	name string
	feed *producer.Feed
	last *producer.Publication
}

func (s *stored) Begin(ctx context.Context, entities []*feed.Entity, more bool) (func() (Receipt, error), error) {
	begun, err := s.feed.Begin(context.WithoutCancel(ctx), producer.Batch{Entities: entities, After: s.last, More: more})
	if err != nil {
		return nil, err
	}
	s.last = begun
	return func() (Receipt, error) {
		r, err := begun.Wait()
		receipt := Receipt{Published: r.Published, Duplicates: r.Duplicates, ContentID: r.ContentID}
		if r.Page > 0 {
			receipt.Page = layout.FeedPagePath(s.name, r.Page)
		}
		return receipt, err
	}, nil
}

// An Import publishes an input from its beginning to its end. The faster the input, the larger the
// batches. With a State, it continues where an earlier import ended or was killed.
type Import struct {
	To       Target
	Entities iter.Seq2[*feed.Entity, error]
	// Tell, if not nil, is called first, to pass a function to the input. The input must call that
	// function with false when it begins to wait for more entities, and with true when it has more.
	// While the input waits, the entities read so far are published. Without Tell, the input is
	// assumed to wait after each entity.
	Tell func(busy func(bool))
	// Memory is the maximum memory for entities that are being published, in bytes, in addition to
	// the memory for one batch. 0 means 4 MiB.
	Memory int64
	// BatchBytes is the maximum total size of the bodies in a batch. The memory of an entity is
	// freed when the whole batch is durable, so smaller batches need less memory. 0 means 1 MiB.
	BatchBytes int64
	// State, if not nil, records how much of the input has been published.
	State *State
	// PageEntities and PageBytes are the limits of the feed's pages. They matter if State is set:
	// all entities that are being published at the same time must fit onto the pages on which
	// Content-IDs are recognized. 0 means the defaults of a feed, 10,000 and 1 MiB.
	PageEntities int
	PageBytes    int64
	// Progress, if not nil, is called after each batch.
	Progress func(Result)
}

// A Result is the result of an [Import].
type Result struct {
	// Skipped is the number of entities at the start of the input that had been published before,
	// according to the State.
	Skipped int64
	// Acknowledged is the number of entities published after the skipped ones, including
	// Duplicates. Bytes is the size of their bodies, not counting streams.
	Acknowledged, Published, Duplicates, Bytes int64
	// Last is the receipt of the last batch.
	Last Receipt
}

// Limits of a batch.
const (
	batchEntities = 4096
	batchBytes    = 1 << 20
)

// large is a size in bytes. After an entity with a larger body, at most one batch is under way
// while the next entity is being read, since reading a large body takes memory of twice its size.
const large = 2 << 20

// Run publishes the input and returns when all of it is durable. When ctx ends, Run finishes the
// batches that have been begun, so that their outcome is known; it does not wait if reading the
// input blocks.
func (im *Import) Run(ctx context.Context) (Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var result Result
	if im.State != nil {
		result.Skipped = im.State.Published
	}
	options := im.options()
	options.Done = func(o producer.Outcome) error {
		err := o.Err
		if err == nil {
			err = im.done(&result, o)
		}
		if err != nil {
			cancel()
		}
		return err
	}
	w := producer.NewWriter(func(ctx context.Context, b producer.Batch) (func() (producer.Receipt, error), error) {
		wait, err := im.To.Begin(ctx, b.Entities, b.More)
		if err != nil {
			return nil, err
		}
		return func() (producer.Receipt, error) {
			receipt, err := wait()
			if err == nil {
				result.Last = receipt
			}
			return producer.Receipt{}, err
		}, nil
	}, options)
	ended := make(chan error, 1)
	go func() { ended <- im.read(ctx, cancel, w, result.Skipped) }()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if failed := w.Close(); failed != nil {
		err = failed
	}
	return result, err
}

// options returns the options of the writer.
func (im *Import) options() producer.WriterOptions {
	batch := cmp.Or(im.BatchBytes, batchBytes)
	o := producer.WriterOptions{
		MaxEntities: batchEntities, MaxBytes: batch, Ahead: 64,
		Memory: semaphore.NewWeighted(cmp.Or(im.Memory, 4<<20) + batch),
	}
	if im.State == nil {
		return o
	}
	// Entities published before a crash are recognized when they are published again, even after
	// several crashes and in other batches, if all batches that are under way at the same time fit
	// onto the newest pages. Pages may be half full, and an entity has up to half a KiB of headers.
	const pages, batches = 16, 8
	entities, bytes := int64(cmp.Or(im.PageEntities, 10_000)), cmp.Or(im.PageBytes, 1<<20)
	entities = min(pages*entities, pages*bytes/(2*512))
	o.MaxEntities = min(o.MaxEntities, int(max(1, entities/batches)))
	o.MaxBytes = min(o.MaxBytes, max(1, pages*bytes/2/batches))
	o.Ahead = batches - 2 // in addition, one is being collected and one is beginning
	return o
}

// read skips the first skip entities of the input, and publishes the rest.
func (im *Import) read(ctx context.Context, stop func(), w *producer.Writer, skip int64) error {
	waits := func(busy bool) {
		if !busy && w.Flush(ctx) != nil {
			stop() // the input may never end; Close returns the error
		}
	}
	if im.Tell != nil {
		im.Tell(waits)
	}
	n := int64(0)
	var broken error // the error of the input, or of comparing it with the State
	for e, err := range im.Entities {
		if n++; err == nil && n <= skip {
			err = im.State.check(n, e)
		}
		if err != nil {
			broken = err
			break
		}
		if n <= skip {
			continue
		}
		if err := w.Add(ctx, e); err != nil {
			return err
		}
		if im.Tell == nil {
			waits(false)
		}
		if len(e.Body) > large {
			if err := w.WaitFor(ctx, 1); err != nil {
				return err
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	if broken == nil && im.State != nil {
		broken = im.State.checkEnd(n, skip)
	}
	return cmp.Or(w.Flush(ctx), broken)
}

// done adds the outcome of a batch to the result of the import.
func (im *Import) done(r *Result, o producer.Outcome) error {
	for _, e := range o.Entities {
		r.Bytes += int64(len(e.Body))
	}
	r.Published += int64(r.Last.Published)
	r.Duplicates += int64(r.Last.Duplicates)
	r.Acknowledged += int64(len(o.Entities))
	var err error
	if im.State != nil {
		err = im.State.save(r.Skipped+r.Acknowledged, o.Entities[len(o.Entities)-1])
	}
	if im.Progress != nil {
		im.Progress(*r)
	}
	return err
}
