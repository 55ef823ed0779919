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

// ErrRecreated means that the database was deleted and created again, or replaced.
// Positions in the old database are not valid in the new one.
var ErrRecreated = errors.New("database was deleted and created again: follow it from its beginning")

var errClosed = errors.New("follower is closed")

// Stats has the counts of a Follower.
type Stats struct {
	Rows       int64 // delivered rows
	Bytes      int64 // bytes of responses read
	Requests   int64 // requests for the feed, including reconnects
	Reconnects int64 // reconnects after a failure
	Malformed  int64 // malformed rows
}

// A Follower reads a changes feed. Its methods, except Next, may be called
// concurrently.
type Follower struct {
	db      *couchdb.DB
	options Options
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	start   sync.Once
	stopped chan struct{} // closed when run has returned
	arrived chan struct{} // signals a change of ready or err
	taken   chan struct{} // signals that ready is nil again

	mu       sync.Mutex
	ready    *Batch   // returned by the next call of Next; may still grow
	err      error    // returned after ready
	handed   []*Batch // returned and not confirmed, in order
	position json.RawMessage
	instance string
	info     couchdb.Info
	stats    Stats
}

// New returns a Follower of db. It makes no request. The caller must close the Follower.
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

// Next waits for the next rows and returns them, or a batch without rows if only the
// position has changed. It returns io.EOF at the end of a Normal feed and after Limit
// rows. The error matches ErrRecreated if the database was replaced, and
// couchdb.ErrNotFound if it does not exist. It is [couchdb.Permanent] if the server
// refuses the credentials, the position or the filter, or its certificate is invalid.
// After other errors the follower reconnects; when it has used up its attempts, Next
// returns the last of them. Errors are final, except that of ctx.
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

// take returns the batch that is ready, or the error after it.
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

// offer makes a batch ready for Next. It waits until there is room for the batch, and
// takes ownership of it unless it returns an error.
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

// run reads until the feed ends, an error is final or the follower is closed.
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

// Confirm confirms that all rows of b, and of the batches before it, have been
// handled. It releases their documents and advances Position. Each batch must be
// confirmed, or a later one.
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

// Position returns the position after the last confirmed batch: initially
// [Options.Since], and nil at the beginning of the feed.
func (f *Follower) Position() json.RawMessage {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.position
}

// Instance identifies the database, to recognize that it was deleted and created
// again. Store it with the position. It is set when the first batch is returned:
// [couchdb.Info.Instance]; or, with CouchDB before 3.3, the server's uuid and the
// database's name (all nodes of a cluster must have the same uuid, according to its
// documentation); or empty if the server sends neither (Cloudant, PouchDB Server).
func (f *Follower) Instance() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.instance
}

// Info returns the description of the database from when the follower last connected.
// It is empty before the first batch.
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

// Close closes the connection and releases batches that are not confirmed.
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
