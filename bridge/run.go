package bridge

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/producer"
)

// How much is published with one commit: in bytes of bodies, and in entities, since deletions have no
// bodies.
const (
	maxCommit         = 1 << 20
	maxCommitEntities = 4096
)

// ahead is how many commits may be under way while the next one is being gathered. The entities of
// these commits stay in memory until they are in the index.
const ahead = 1

// A Source reads changes for a run.
type Source interface {
	// Read sends the changes of the source until there are no more, or ctx ends.
	Read(ctx context.Context, pieces chan<- *Piece) error
	// State returns an object whose members are added to the next [Checkpoint]. It is called by
	// the goroutine that publishes.
	State() any
	// Close releases the resources of pieces. It is called at the end of the run.
	Close() error
}

// A Piece is a part of a source's changes.
type Piece struct {
	Before, After json.RawMessage // the positions in the source before and after it
	// Publish publishes the changes that are not in the feed, with the methods of [Run].
	Publish func(ctx context.Context) error
	// Settled is called when all changes of the piece are in the feed.
	Settled func(ctx context.Context)
}

// A Run publishes the changes that a source reads. It has three goroutines: the source's, one that
// builds entities and begins to publish them, and the writer's, which waits until they are durable.
type Run struct {
	b             *Bridge
	source        Source
	feed, session string // of the checkpoint
	// aside is set if the source is not read in order; in that case, the position in the checkpoint
	// does not change.
	aside bool

	// Used only by the goroutine that publishes.
	at       Checkpoint // the last one passed to the producer
	last     *producer.Publication
	rejected map[string]bool // names of things put into quarantine, if the run is a retry

	writer  *producer.Writer // its marks are pieces
	durable []byte           // the checkpoint of the feed; used only when a batch is done

	mu      sync.Mutex
	start   json.RawMessage // the position in the source from which it is read
	settled json.RawMessage // the position in the source up to which everything is in the feed
}

// NewRun returns a run that continues from a checkpoint, with a new session.
func (b *Bridge) NewRun(at Checkpoint, session string) *Run {
	at.Session, at.Selection = session, b.config.Selection
	b.settledAt(at.Since)
	return b.newRun(at)
}

func (b *Bridge) newRun(at Checkpoint) *Run {
	at.Bridge, at.Source = b.config.Kind, b.config.Source
	return &Run{
		b: b, feed: at.Feed, session: at.Session, at: at, durable: at.encoded, start: at.Since, settled: at.Since,
	}
}

// BeginAt sets the position in the source from which it is read. The default is the position in the
// checkpoint.
func (r *Run) BeginAt(since json.RawMessage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.start, r.settled = since, since
	r.b.settledAt(since)
}

// settledAt records the position in the source up to which everything is in the feed.
func (b *Bridge) settledAt(since json.RawMessage) {
	b.Meter.Count(func(p *Progress) { p.Since = string(since) })
}

// Places returns the position in the source from which it is read, and the position up to which
// everything is in the feed.
func (r *Run) Places() (start, settled json.RawMessage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.start, r.settled
}

// Do publishes the changes of a source until the source ends or there is an error. It waits for
// pending publications before it returns.
func (r *Run) Do(ctx context.Context, source Source) error {
	r.source = source
	unhurried := context.WithoutCancel(ctx)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var reading sync.WaitGroup
	pieces := make(chan *Piece, 1)
	var read error
	reading.Go(func() {
		defer close(pieces)
		read = source.Read(ctx, pieces)
	})
	r.writer = producer.NewWriter(r.begin, producer.WriterOptions{
		MaxEntities: maxCommitEntities, MaxBytes: maxCommit, Ahead: ahead,
		Done: func(o producer.Outcome) error {
			err := r.settle(unhurried, o)
			if err != nil {
				cancel(err)
			}
			return err
		},
	})
	ended, err := r.publish(ctx, pieces)
	failed := r.writer.Close()
	if failed != nil {
		err = failed // the others ended because of it
	}
	cancel(err)
	reading.Wait()
	if ended && failed == nil {
		err = errors.Join(read, err)
	}
	return errors.Join(err, source.Close())
}

// publish publishes pieces. It returns true if the source has ended.
func (r *Run) publish(ctx context.Context, pieces <-chan *Piece) (ended bool, err error) {
	for {
		select {
		case p, ok := <-pieces:
			if !ok { // even after an error of the source
				return true, r.writer.Flush(ctx)
			}
			if err := r.publishPiece(ctx, p); err != nil {
				return false, err
			}
		case <-r.writer.Idle():
			if err := r.writer.Flush(ctx); err != nil {
				return false, err
			}
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

func (r *Run) publishPiece(ctx context.Context, p *Piece) error {
	if !r.aside {
		r.at.Since = p.Before
	}
	if err := p.Publish(ctx); err != nil {
		return err
	}
	r.writer.Mark(p)
	if !r.aside {
		r.at.Since = p.After
	}
	select {
	case <-r.writer.Idle():
		return r.writer.Flush(ctx)
	default:
		return nil
	}
}

// Reject puts a document or row into quarantine.
func (r *Run) Reject(ctx context.Context, thing Quarantined) error {
	added, err := r.b.quarantine(ctx, thing)
	if err != nil {
		return err
	}
	r.b.Index.Release(Version{thing.ID, thing.Rev})
	if r.rejected != nil {
		r.rejected[thing.quarantineName()] = true
	}
	if added {
		r.b.Meter.Count(func(p *Progress) { p.Quarantined++ })
		r.b.log.Warn("put into quarantine", "feed", r.b.config.Feed, "id", thing.ID, "rev", thing.Rev, "reason", thing.Reason)
	}
	return nil
}

// Add adds an entity, made by [Version.Entity], to be published. An entity with a stream is published
// at once, after those added before. The error is a [*StreamError] if its stream fails.
func (r *Run) Add(ctx context.Context, e *feed.Entity) error {
	if e.Stream != nil {
		return r.addStream(ctx, e)
	}
	return r.writer.Add(ctx, e)
}

// begin begins to publish a batch with the next checkpoint.
func (r *Run) begin(ctx context.Context, b producer.Batch) (func() (producer.Receipt, error), error) {
	next := r.at
	next.Commit++
	encoded, err := next.encode(r.source.State())
	if err != nil {
		return nil, err
	}
	b.Checkpoint, b.Previous, b.Known, b.After = encoded, r.at.encoded, r.at.known, r.last
	p, err := r.b.feed.Begin(ctx, b)
	if err != nil {
		return nil, err
	}
	next.encoded = encoded
	r.at, r.last = next, p
	return func() (producer.Receipt, error) {
		receipt, err := p.Wait()
		r.durable = encoded
		return receipt, err
	}, nil
}

// SettleAll publishes what has been added, and waits until all of it is in the feed and in
// the index.
func (r *Run) SettleAll(ctx context.Context) error {
	return cmp.Or(r.writer.Wait(ctx), context.Cause(ctx))
}

// settle updates the index after a batch.
func (r *Run) settle(ctx context.Context, o producer.Outcome) error {
	if o.Err != nil {
		return o.Err
	}
	if len(o.Entities) > 0 {
		if err := r.settleEntities(o); err != nil {
			return err
		}
	}
	if len(o.Marks) == 0 {
		return nil
	}
	since := o.Marks[len(o.Marks)-1].(*Piece).After
	if !r.aside {
		r.mu.Lock()
		r.settled = since
		r.mu.Unlock()
		r.b.settledAt(since)
	}
	for _, p := range o.Marks {
		p.(*Piece).Settled(ctx)
	}
	if r.aside || len(o.Entities) > 0 || r.durable == nil {
		return nil
	}
	return r.b.Index.rest(resting{Checkpoint: r.durable, Selection: r.b.config.Selection, Since: since, Session: r.session})
}

func (r *Run) settleEntities(o producer.Outcome) error {
	versions, bytes := make([]change, 0, len(o.Entities)), int64(0)
	for _, e := range o.Entities {
		v, _ := VersionOf(e.ContentLocation, e.Header[0].Value) // as made by Version.Entity
		versions = append(versions, change{v, e.Operation == feed.Delete})
		bytes += int64(len(e.Body))
	}
	receipt := o.Receipt
	r.b.Meter.Count(func(p *Progress) {
		p.Published += int64(receipt.Published)
		p.LastPublish = time.Now()
		p.Bytes += bytes
	})
	if receipt.Duplicates > 0 {
		// Another producer has published some of the entities since the index was filled, and
		// maybe others that the index does not have.
		return fmt.Errorf("%w: %d entities were in the feed already", producer.ErrCheckpoint, receipt.Duplicates)
	}
	return r.b.Index.add(versions, place{Feed: r.feed, Page: receipt.Page, ContentID: receipt.ContentID})
}
