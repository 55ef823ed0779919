package changes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/feedctl/feedctl/couchdb"
)

// ErrRecreated: the database is not the one that was followed so far; it was
// deleted and created again, or replaced. Positions in the old one mean nothing
// in it.
var ErrRecreated = errors.New("database was deleted and created again: follow it from its beginning")

var errClosed = errors.New("follower is closed")

// Stats counts what a Follower has met.
type Stats struct {
	Rows       int64 // that were handed out
	Bytes      int64 // of answers that were read
	Requests   int64 // of the feed, reconnects among them
	Reconnects int64 // after a failure
	Malformed  int64 // rows that made no sense
}

// A Follower reads a changes feed. Its methods may be called concurrently, but
// not Next.
type Follower struct {
	db      *couchdb.DB
	options Options
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	start   sync.Once
	stopped chan struct{} // closed when nothing reads any more
	arrived chan struct{} // has something in it if ready or err is new
	taken   chan struct{} // has something in it if ready is free again

	mu       sync.Mutex
	ready    *Batch   // to be handed out next, and still growing
	err      error    // what comes after it
	handed   []*Batch // that are not confirmed, in order
	position json.RawMessage
	instance string
	info     couchdb.Info
	stats    Stats
}

// New returns a Follower of db. It makes no request. It must be closed.
func New(db *couchdb.DB, o Options) (*Follower, error) {
	if err := o.Check(); err != nil {
		return nil, fmt.Errorf("follow changes of %s: %w", db.URL(), err)
	}
	f := &Follower{
		db: db, options: o, position: o.Since, instance: o.Instance,
		stopped: make(chan struct{}), arrived: make(chan struct{}, 1), taken: make(chan struct{}, 1),
	}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	return f, nil
}

// Next returns the next rows, as soon as there are some, or a batch without
// rows if only the position has changed. It returns io.EOF at the end of a
// Normal feed and after Limit rows. Errors are final, but for that of ctx: after
// it Next can be called again. They match ErrRecreated; couchdb.ErrNotFound if
// the database is gone; or they are [couchdb.Permanent] if asking again is of no
// use (credentials, a position or a filter that the server does not accept, a
// certificate), and what was wrong last if the follower has tried often enough. Everything
// else it overcomes by reconnecting.
func (f *Follower) Next(ctx context.Context) (*Batch, error) {
	f.start.Do(func() { go f.run() })
	for {
		if b, err := f.take(); b != nil || err != nil {
			return b, err
		}
		select {
		case <-f.arrived:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// take returns what is ready, or what comes after it.
func (f *Follower) take() (*Batch, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := f.ready
	if b == nil {
		return nil, f.err
	}
	f.ready = nil
	f.handed = append(f.handed, b)
	f.stats.Rows += int64(len(b.Rows))
	signal(f.taken)
	return b, nil
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// offer makes a batch ready to be handed out, and waits until there is room for
// it. Only then it is the follower's.
func (f *Follower) offer(b *Batch) error {
	for {
		f.mu.Lock()
		switch {
		case f.ready == nil:
			f.ready = b
		case f.ready.fits(len(b.Rows), b.bytes, &f.options):
			f.ready.join(b)
		default:
			f.mu.Unlock()
			select {
			case <-f.taken:
				continue
			case <-f.ctx.Done():
				return errClosed
			}
		}
		f.mu.Unlock()
		signal(f.arrived)
		return nil
	}
}

// run reads until there is nothing more to be had.
func (f *Follower) run() {
	defer close(f.stopped)
	r := &run{f: f, since: f.position}
	err := r.follow()
	if f.ctx.Err() != nil {
		err = errClosed
	} else if err != io.EOF {
		err = fmt.Errorf("follow changes of %s: %w", f.db.URL(), err)
	}
	f.mu.Lock()
	f.err = err
	f.mu.Unlock()
	signal(f.arrived)
}

// Confirm says that all rows of b, and of the batches before it, are handled.
// Their documents are released, and Position moves on. Every batch must be
// confirmed, or one after it.
func (f *Follower) Confirm(b *Batch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, handed := range f.handed {
		if handed != b {
			continue
		}
		for _, done := range f.handed[:i+1] {
			done.release()
		}
		f.handed = append([]*Batch(nil), f.handed[i+1:]...)
		if b.Seq != nil {
			f.position = b.Seq
		}
		return
	}
}

// Position returns the position after the last batch that was confirmed: that
// of [Options.Since] at first, or nil for the beginning.
func (f *Follower) Position() json.RawMessage {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.position
}

// Instance names the database that is followed, so that one that was deleted and
// created again can be told from it; it is to be stored with the position. It is
// known with the first batch: [couchdb.Info.Instance], or the server's uuid and
// the database's name if that is all there is (CouchDB before 3.3; all nodes of
// a cluster must have the same uuid, as its documentation says), or empty where
// the server does not tell (Cloudant, PouchDB Server).
func (f *Follower) Instance() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.instance
}

// Info returns what the server said about the database when the follower last
// connected. It is empty before the first batch.
func (f *Follower) Info() couchdb.Info {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.info
}

// Stats returns the counts so far.
func (f *Follower) Stats() Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stats
}

func (f *Follower) count(count func(*Stats)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	count(&f.stats)
}

// Close ends the connection and releases what is not confirmed.
func (f *Follower) Close() error {
	f.cancel()
	f.start.Do(func() { close(f.stopped) }) // it was never started
	<-f.stopped
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = errClosed
	for _, b := range f.handed {
		b.release()
	}
	if f.ready != nil {
		f.ready.release()
	}
	f.handed, f.ready = nil, nil
	return nil
}
