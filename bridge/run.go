package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/producer"
)

// How much is published with one commit, in bytes of bodies. While a commit is pending, entities
// are gathered up to commitMost; otherwise commitLeast is enough.
const (
	commitLeast = 512 << 10
	commitMost  = 1 << 20
)

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
// builds entities and begins to publish them, and one that waits until they are durable.
type Run struct {
	b             *Bridge
	source        Source
	feed, session string // of the checkpoint
	// aside is set if the source is not read in order; then the position in the checkpoint does not
	// change.
	aside bool

	// Used only by the goroutine that publishes.
	at       Checkpoint // the last one passed to the producer
	out      *delivery  // to be published next
	last     *producer.Publication
	rejected map[string]bool // names of things put into quarantine, if the run is a retry

	deliveries chan *delivery
	underway   atomic.Int64  // deliveries that are not settled
	idle       chan struct{} // signals that underway is 0

	mu      sync.Mutex
	start   json.RawMessage // the position in the source from which it is read
	settled json.RawMessage // the position in the source up to which everything is in the feed
}

// A delivery is a set of entities that are published together. It may have only ends of pieces.
type delivery struct {
	entities    []*feed.Entity
	versions    []Version
	bytes       int64
	pieces      []*Piece // that end with it
	publication *producer.Publication
	checkpoint  []byte // of the feed once the delivery is published
}

// NewRun returns a run that continues from a checkpoint, with a new session.
func (b *Bridge) NewRun(at Checkpoint, session string) *Run {
	at.Session, at.Selection = session, b.config.Selection
	return b.newRun(at)
}

func (b *Bridge) newRun(at Checkpoint) *Run {
	at.Bridge, at.Source = b.config.Kind, b.config.Source
	return &Run{
		b: b, feed: at.Feed, session: at.Session, at: at, start: at.Since, settled: at.Since, out: new(delivery),
		deliveries: make(chan *delivery, 64),
		idle:       make(chan struct{}, 1),
	}
}

// BeginAt sets the position in the source from which it is read. The default is that of the
// checkpoint.
func (r *Run) BeginAt(since json.RawMessage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.start, r.settled = since, since
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
	var reading, settling sync.WaitGroup
	pieces := make(chan *Piece, 1)
	var read error
	reading.Go(func() {
		defer close(pieces)
		read = source.Read(ctx, pieces)
	})
	var failed error
	settling.Go(func() {
		for d := range r.deliveries {
			// After a failed delivery, later ones fail, too. Wait for all of them.
			if err := r.settle(unhurried, d); err != nil && failed == nil {
				failed = err
				cancel(err)
			}
		}
	})
	ended, err := r.publish(ctx, pieces)
	close(r.deliveries)
	settling.Wait()
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
				return true, r.flush(ctx)
			}
			if err := r.publishPiece(ctx, p); err != nil {
				return false, err
			}
		case <-r.idle:
			if err := r.flush(ctx); err != nil {
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
	r.out.pieces = append(r.out.pieces, p)
	if !r.aside {
		r.at.Since = p.After
	}
	if r.underway.Load() == 0 {
		return r.flush(ctx)
	}
	return nil
}

// Reject puts something into quarantine.
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

// Add adds an entity to be published. An entity with a stream is published at once, after those
// added before. The error is a [*StreamError] if its stream fails.
func (r *Run) Add(ctx context.Context, v Version, e *feed.Entity) error {
	if e.Stream != nil {
		return r.addStream(ctx, v, e)
	}
	r.add(v, e)
	if r.out.bytes >= commitMost || r.out.bytes >= commitLeast && r.underway.Load() == 0 {
		return r.flush(ctx)
	}
	return nil
}

func (r *Run) add(v Version, e *feed.Entity) {
	r.out.entities = append(r.out.entities, e)
	r.out.versions = append(r.out.versions, v)
	r.out.bytes += int64(len(e.Body))
}

// flush begins to publish the current delivery.
func (r *Run) flush(ctx context.Context) error {
	d := r.out
	if len(d.entities) == 0 && len(d.pieces) == 0 {
		return nil
	}
	r.out = new(delivery)
	if len(d.entities) > 0 {
		next := r.at
		next.Commit++
		encoded, err := next.encode(r.source.State())
		if err != nil {
			return err
		}
		// That of the reader's ctx is not enough to give up what others wait for.
		d.publication, err = r.b.feed.Begin(ctx, producer.Batch{
			Entities: d.entities, Checkpoint: encoded, Previous: r.at.encoded, After: r.last,
		})
		if err != nil {
			return err
		}
		next.encoded = encoded
		r.at, r.last = next, d.publication
	}
	d.checkpoint = r.at.encoded
	r.underway.Add(1)
	r.deliveries <- d
	return nil
}

// SettleAll publishes what has been added, and waits until all of it is in the feed and in
// the index.
func (r *Run) SettleAll(ctx context.Context) error {
	if err := r.flush(ctx); err != nil {
		return err
	}
	for r.underway.Load() > 0 {
		select {
		case <-r.idle:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return context.Cause(ctx) // the error of a failed delivery, or nil
}

// settle waits until a delivery is durable and updates the index.
func (r *Run) settle(ctx context.Context, d *delivery) error {
	defer func() {
		if r.underway.Add(-1) == 0 {
			select {
			case r.idle <- struct{}{}:
			default:
			}
		}
	}()
	if d.publication != nil {
		if err := r.settlePublication(d); err != nil {
			return err
		}
	}
	if len(d.pieces) == 0 {
		return nil
	}
	since := d.pieces[len(d.pieces)-1].After
	if !r.aside {
		r.mu.Lock()
		r.settled = since
		r.mu.Unlock()
	}
	for _, p := range d.pieces {
		p.Settled(ctx)
	}
	if r.aside || d.publication != nil || d.checkpoint == nil {
		return nil
	}
	return r.b.Index.rest(resting{Checkpoint: d.checkpoint, Selection: r.b.config.Selection, Since: since, Session: r.session})
}

func (r *Run) settlePublication(d *delivery) error {
	receipt, err := d.publication.Wait()
	if err != nil {
		return err
	}
	r.b.Meter.Count(func(p *Progress) {
		p.Published += int64(receipt.Published)
		p.LastPublish = time.Now()
		p.Bytes += d.bytes
	})
	if receipt.Duplicates > 0 {
		// Another producer has published some of the entities since the index was filled, and
		// maybe others that the index does not have.
		return fmt.Errorf("%w: %d entities were in the feed already", producer.ErrCheckpoint, receipt.Duplicates)
	}
	return r.b.Index.add(d.versions, place{Feed: r.feed, Page: receipt.Page, ContentID: receipt.ContentID})
}
