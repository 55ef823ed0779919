package couchdb

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

// How much is published with one commit, in bytes of bodies. While one is under way, what
// comes next is gathered up to commitMost; while none is, commitLeast is enough.
const (
	commitLeast = 512 << 10
	commitMost  = 1 << 20
)

// A run publishes what a reader reads. Three goroutines work on it: the reader's, the one
// that makes entities and begins to publish them, and the one that waits until they are
// durable.
type run struct {
	b      *Bridge
	reader *reader

	// Of the goroutine that publishes, but for at.Feed and at.Session, which do not change.
	at      checkpoint // the last that was given to the producer
	encoded []byte     // its form in the feed
	out     *delivery  // what is to be published next
	last    *producer.Publication
	// rejected has the names of what was put into quarantine, if that is asked for.
	rejected map[string]bool

	deliveries chan *delivery
	underway   atomic.Int64  // deliveries that are not settled
	idle       chan struct{} // has a value after the last of them was settled

	mu      sync.Mutex
	start   json.RawMessage // the place in the source from which it is read
	settled json.RawMessage // the place in the source up to which everything is in the feed
}

// A delivery is what is published at once. It may be nothing but the end of pieces.
type delivery struct {
	entities    []*feed.Entity
	pairs       []pair
	bytes       int64
	pieces      []*piece // that end with it
	publication *producer.Publication
	checkpoint  []byte // of the feed, when it has been published
}

// newRun prepares to go on from where the feed is.
func (b *Bridge) newRun(ctx context.Context, session string) (*run, error) {
	at, encoded, err := b.start(ctx)
	if err != nil {
		return nil, err
	}
	from := at.origin()
	at.Session = session
	at.Selection, at.Conflicts = b.selection, b.config.Conflicts
	return b.prepare(at, encoded, from), nil
}

// prepare returns a run that reads the source from a place on.
func (b *Bridge) prepare(at checkpoint, encoded []byte, from origin) *run {
	source := b.config.Source.URL()
	if from.source == source {
		from.source = ""
	}
	at.Source = source
	s := &run{
		b: b, at: at, encoded: encoded, start: from.since, settled: from.since, out: new(delivery),
		reader:     newReader(b, from, at.Instance),
		deliveries: make(chan *delivery, 64),
		idle:       make(chan struct{}, 1),
	}
	s.reader.placed = s.place
	b.log.known.Store(nil)
	return s
}

// place changes where the run begins.
func (s *run) place(since json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.start, s.settled = since, since
}

// reached returns the place in the source up to which everything is in the feed.
func (s *run) reached() json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.settled
}

// run returns at the end of the changes feed, or with an error. What was begun to be
// published has come to its end then.
func (s *run) run(ctx context.Context) error {
	unhurried := context.WithoutCancel(ctx)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var reading, settling sync.WaitGroup
	reading.Go(func() { s.reader.read(ctx) })
	var failed error
	settling.Go(func() {
		for d := range s.deliveries {
			// Behind one that failed, none is published. Their end is awaited nevertheless.
			if err := s.settle(unhurried, d); err != nil && failed == nil {
				failed = err
				cancel(err)
			}
		}
	})
	err := s.publishAll(ctx)
	close(s.deliveries)
	settling.Wait()
	if failed != nil {
		err = failed // the others ended because of it
	}
	cancel(err)
	reading.Wait()
	return errors.Join(err, s.reader.close())
}

// publishAll publishes pieces until there are no more.
func (s *run) publishAll(ctx context.Context) error {
	for {
		select {
		case p, ok := <-s.reader.pieces:
			if !ok { // what was read before an error can be published nevertheless
				return errors.Join(s.reader.err, s.flush(ctx))
			}
			if err := s.publishPiece(ctx, p); err != nil {
				return err
			}
		case <-s.idle:
			if err := s.flush(ctx); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (s *run) publishPiece(ctx context.Context, p *piece) error {
	s.at.Instance = p.instance
	if s.reader.only == nil {
		s.at.Since = p.from
	}
	for _, thing := range p.bad {
		if err := s.reject(ctx, thing); err != nil {
			return err
		}
	}
	for i := range p.wants {
		if err := s.publishWant(ctx, &p.wants[i]); err != nil {
			return err
		}
		if s.out.bytes >= commitMost || s.out.bytes >= commitLeast && s.underway.Load() == 0 {
			if err := s.flush(ctx); err != nil {
				return err
			}
		}
	}
	s.out.pieces = append(s.out.pieces, p)
	if s.reader.only == nil {
		s.at.Since = p.since
	}
	if s.underway.Load() == 0 {
		return s.flush(ctx)
	}
	return nil
}

// reject puts something into quarantine.
func (s *run) reject(ctx context.Context, thing Quarantined) error {
	thing.Options, thing.Filter = s.b.config.Options, s.b.config.Filter
	thing.Filter.DocIDs = nil // there may be many, and its own is one of them
	added, err := s.b.quarantine.put(ctx, thing)
	if err != nil {
		return err
	}
	s.b.index.release(pair{thing.ID, thing.Rev})
	if s.rejected != nil {
		s.rejected[thing.quarantineName()] = true
	}
	if added {
		s.b.meter.count(func(p *Progress) { p.Quarantined++ })
		s.b.config.Log.Warn("put into quarantine", "feed", s.b.config.Feed, "id", thing.ID, "rev", thing.Rev, "reason", thing.Reason)
	}
	return nil
}

// add puts an entity into the next delivery.
func (s *run) add(p pair, e *feed.Entity) {
	s.out.entities = append(s.out.entities, e)
	s.out.pairs = append(s.out.pairs, p)
	s.out.bytes += int64(len(e.Body))
}

// flush begins to publish what has been gathered.
func (s *run) flush(ctx context.Context) error {
	d := s.out
	if len(d.entities) == 0 && len(d.pieces) == 0 {
		return nil
	}
	s.out = new(delivery)
	if len(d.entities) > 0 {
		s.at.Commit++
		s.at.Known = s.b.log.known.Load()
		encoded, err := s.at.encode()
		if err != nil {
			return fmt.Errorf("encode checkpoint: %w", err)
		}
		// That of the reader's ctx is not enough to give up what others wait for.
		d.publication, err = s.b.feed.Begin(ctx, producer.Batch{
			Entities: d.entities, Checkpoint: encoded, Previous: s.encoded, After: s.last,
		})
		if err != nil {
			s.at.Commit--
			return err
		}
		s.encoded, s.last = encoded, d.publication
	}
	d.checkpoint = s.encoded
	s.underway.Add(1)
	s.deliveries <- d
	return nil
}

// settleAll publishes what has been gathered, and waits until all of it is in the feed and in
// the index.
func (s *run) settleAll(ctx context.Context) error {
	if err := s.flush(ctx); err != nil {
		return err
	}
	for s.underway.Load() > 0 {
		select {
		case <-s.idle:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return context.Cause(ctx) // that of what failed
}

// settle waits until a delivery is durable and notes that.
func (s *run) settle(ctx context.Context, d *delivery) error {
	defer func() {
		if s.underway.Add(-1) == 0 {
			select {
			case s.idle <- struct{}{}:
			default:
			}
		}
	}()
	if d.publication != nil {
		if err := s.settlePublication(d); err != nil {
			return err
		}
	}
	if len(d.pieces) == 0 {
		return nil
	}
	for _, p := range d.pieces {
		p.follower.Confirm(p.batch)
	}
	if s.reader.only != nil {
		return nil // the source has been read out of turn
	}
	since := d.pieces[len(d.pieces)-1].since
	s.mu.Lock()
	s.settled = since
	s.mu.Unlock()
	s.b.log.tick(ctx, since)
	if d.publication == nil && d.checkpoint != nil {
		return s.b.index.rest(resting{Checkpoint: d.checkpoint, Selection: s.b.selection, Since: since, Session: s.at.Session})
	}
	return nil
}

func (s *run) settlePublication(d *delivery) error {
	r, err := d.publication.Wait()
	if err != nil {
		return err
	}
	s.b.meter.count(func(p *Progress) {
		p.Published += int64(r.Published)
		p.LastPublish = time.Now()
		p.Bytes += d.bytes
	})
	if r.Duplicates > 0 {
		// Somebody else has published some of it since we looked, and what else he has
		// published we do not know.
		return fmt.Errorf("%w: %d entities were in the feed already", producer.ErrCheckpoint, r.Duplicates)
	}
	return s.b.index.add(d.pairs, place{Feed: s.at.Feed, Page: r.Page, ContentID: r.ContentID})
}
