package feedstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/feedctl/feedctl/chain"
)

// ErrToken means that a token for [Reader.Changes] was not returned by this reader, or is too old. The caller
// has to start over without a token, and compare the versions of all feeds.
var ErrToken = errors.New("changes since the token are not known")

// ErrClosed means that the reader has been closed.
var ErrClosed = errors.New("reader is closed")

// A FeedVersion is a state of a feed.
type FeedVersion struct {
	Name string
	// Version is opaque. It changes whenever the newest page does, and is empty if the feed was deleted.
	Version string
}

// Changes holds feeds that have changed.
type Changes struct {
	// Feeds are in the order of their last changes.
	Feeds []FeedVersion
	// Token is the token with which to continue.
	Token string
	// Complete means that a caller that started without a token and continued with each Token has received
	// all feeds that exist. Only later changes will follow.
	Complete bool
	// Waited means that the call has waited for changes.
	Waited bool
}

// Limits of [Reader.Changes].
const (
	trackedFor    = 10 * time.Minute // how long feeds are polled after the last call
	maxTombstones = 10_000           // how many deleted feeds are remembered
	noticeEvery   = 100 * time.Millisecond
)

// Changes returns at most limit feeds that have changed since a token and whose names begin with
// prefix. Without a token, all feeds count as changed. If no feed has changed, Changes waits for one, or
// until the list is complete, for at most the given time and at most five minutes, provided that fewer than
// Config.MaxWaiters callers are waiting.
//
// A change is noticed at once if this reader sees it or the store reports it. Otherwise, it is noticed when
// the feed is polled, which is after a second at first, and less and less often while the feed does not
// change, so 50 requests a second to a remote store suffice. Polling is shared by all callers; it begins with
// the first call, and ends ten minutes after the last one. Polling needs a few hundred bytes of memory for
// each feed.
//
// The error matches [ErrToken] if the caller has to start over.
func (r *Reader) Changes(ctx context.Context, since, prefix string, limit int, wait time.Duration) (*Changes, error) {
	wait = min(wait, trackedFor/2)
	t, err := r.tracker(since)
	if err != nil {
		return nil, err
	}
	defer t.asked()
	c, err, changed := t.collect(since, prefix, limit)
	known := since == "" && err == nil && c.Complete // it is known that there are no feeds
	if err != nil || len(c.Feeds) > 0 || wait <= 0 || known || !r.subscribers.enter() {
		return c, err
	}
	defer r.subscribers.exit()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	complete := c.Complete
	for over := false; !over && err == nil && len(c.Feeds) == 0 && c.Complete == complete; {
		select {
		case <-changed:
		case <-timer.C:
			over = true
		case <-r.closing:
			over = true
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		c, err, changed = t.collect(c.Token, prefix, limit) // none of the changes up to c.Token concern the caller
		if c != nil {
			c.Waited = true
		}
	}
	return c, err
}

// trackers holds the tracker of a reader, if there have been calls of Changes lately.
type trackers struct {
	mu      sync.Mutex
	current *tracker
	closed  bool
	done    sync.WaitGroup
}

// A tracker polls feeds, and notices changes of all of them.
type tracker struct {
	reader *Reader
	epoch  string // prefix of its tokens
	stop   context.CancelFunc
	hint   chan struct{} // holds a value if there is something to do
	polls  chan struct{} // holds a value for each poll under way

	mu         sync.Mutex
	last       time.Time // time of the last call
	byName     map[string]*tracked
	unseen     int       // how many feeds in byName have not been seen
	seq        int64     // of the last change
	oldest     int64     // changes up to this one may have been forgotten
	log        []logged  // in the order of seq; an entry is ignored if its feed has changed again
	tombstones int       // how many feeds in byName were deleted
	complete   bool      // whether each feed has been polled
	failure    error     // why feeds cannot be listed
	noticed    int64     // callers have been notified of changes up to this one
	notified   time.Time // when callers were last notified
	changed    chan struct{}
	hinted     map[string]bool // feeds that may have changed
	anyHinted  bool            // whether any feed may have changed
	polling    map[string]bool // feeds whose polls are under way, or about to be
}

// A tracked is the state of one feed.
type tracked struct {
	page     *chain.Page // nil if it is not known, or the feed was deleted
	version  string
	seq      int64         // of the last change; 0 if the feed has not been seen
	polled   time.Time     // time of the last poll
	interval time.Duration // time after polled until the next poll
	hinted   bool          // whether the feed may have changed since the last poll
	failures int           // how many polls in a row have failed
}

type logged struct {
	seq  int64
	name string
}

// tracker returns the tracker, and starts one if there is none.
func (r *Reader) tracker(since string) (*tracker, error) {
	s := &r.trackers
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, ErrClosed
	case s.current != nil:
		s.current.asked()
		return s.current, nil
	case since != "":
		return nil, fmt.Errorf("%w: start over", ErrToken) // without starting a tracker
	}
	ctx, stop := context.WithCancel(context.Background())
	t := &tracker{
		reader: r, epoch: strings.ToLower(rand.Text()[:20]), stop: stop, hint: make(chan struct{}, 1),
		polls: make(chan struct{}, pollsAtOnce), last: time.Now(), byName: map[string]*tracked{}, changed: make(chan struct{}),
		hinted: map[string]bool{}, polling: map[string]bool{},
	}
	s.current = t
	s.done.Go(func() {
		defer stop()
		t.run(ctx)
	})
	return t, nil
}

// close ends tracking.
func (s *trackers) close() {
	s.mu.Lock()
	s.closed = true
	if s.current != nil {
		s.current.stop()
	}
	s.mu.Unlock()
	s.done.Wait()
}

// asked records that Changes was called.
func (t *tracker) asked() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = time.Now()
}

// abandoned reports whether the tracker has to end because there have been no calls for a long time.
func (t *tracker) abandoned() bool {
	s := &t.reader.trackers
	s.mu.Lock()
	defer s.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	if time.Since(t.last) < trackedFor {
		return false
	}
	if s.current == t {
		s.current = nil
	}
	return true
}

// parse returns the number of the change that a token stands for, or 0 if the token is empty. The caller must
// hold mu.
func (t *tracker) parse(token string) (int64, error) {
	if token == "" {
		return 0, nil
	}
	epoch, number, _ := strings.Cut(token, "-")
	seq, err := strconv.ParseInt(number, 10, 64)
	if err != nil || epoch != t.epoch || seq < t.oldest || seq > t.seq || number != strconv.FormatInt(seq, 10) {
		return 0, fmt.Errorf("%w: start over", ErrToken)
	}
	return seq, nil
}

// collect returns changes since a token, and a channel that is closed when there may be further changes.
func (t *tracker) collect(token, prefix string, limit int) (*Changes, error, <-chan struct{}) { //nolint:revive // the error is that of the changes
	t.mu.Lock()
	defer t.mu.Unlock()
	since, err := t.parse(token)
	if err != nil {
		return nil, err, nil
	}
	c := &Changes{Feeds: []FeedVersion{}}
	from, _ := slices.BinarySearchFunc(t.log, since+1, func(l logged, seq int64) int { return cmp.Compare(l.seq, seq) })
	upTo := t.seq
	for _, l := range t.log[from:] {
		feed := t.byName[l.name]
		if feed == nil || feed.seq != l.seq || !strings.HasPrefix(l.name, prefix) {
			continue
		}
		if len(c.Feeds) == limit {
			break
		}
		c.Feeds = append(c.Feeds, FeedVersion{l.name, feed.version})
		upTo = l.seq
	}
	if len(c.Feeds) < limit {
		upTo = t.seq
	}
	if len(c.Feeds) == 0 && t.failure != nil {
		return nil, t.failure, t.changed
	}
	c.Token = t.epoch + "-" + strconv.FormatInt(upTo, 10)
	c.Complete = t.complete && t.failure == nil && upTo == t.seq
	return c, nil, t.changed
}

// damaged is the version of a feed that cannot be read.
const damaged = "damaged"

func versionOf(p *chain.Page) string {
	return fmt.Sprintf("%d-%d-%s", p.Number, p.Entities, p.SHA256[:min(len(p.SHA256), 12)])
}

// saw records the version of a feed (empty if the feed does not exist), and its newest page if that could be
// read. It reports whether the version is new.
func (t *tracker) saw(name, version string, p *chain.Page) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	feed := t.byName[name]
	if feed == nil {
		feed = &tracked{}
		t.byName[name] = feed
		t.unseen++
	}
	if version == "" && feed.seq == 0 {
		delete(t.byName, name) // the feed has no pages yet
		t.unseen--
		return false
	}
	if p != nil {
		feed.page = lean(p)
	}
	if feed.seq > 0 && feed.version == version {
		return false
	}
	switch {
	case version == "":
		feed.page = nil
		t.tombstones++
	case feed.seq > 0 && feed.version == "":
		t.tombstones--
	}
	if feed.seq == 0 {
		t.unseen--
	}
	t.seq++
	feed.version, feed.seq = version, t.seq
	t.log = append(t.log, logged{t.seq, name})
	if t.tombstones > maxTombstones {
		t.bury()
	}
	if len(t.log) > 2*len(t.byName)+1000 {
		t.log = slices.DeleteFunc(t.log, func(l logged) bool { f := t.byName[l.name]; return f == nil || f.seq != l.seq })
	}
	return true
}

// bury forgets the feeds that were deleted, which makes all earlier tokens too old. The caller must hold mu.
func (t *tracker) bury() {
	for name, feed := range t.byName {
		if feed.version == "" && feed.seq > 0 {
			delete(t.byName, name)
		}
	}
	t.tombstones, t.oldest = 0, t.seq
}

// notify notifies the waiting callers if there is something new for them, but at most once in noticeEvery. If
// it is too early, it returns how long to wait.
func (t *tracker) notify() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.noticed == t.seq {
		return 0
	}
	if wait := noticeEvery - time.Since(t.notified); wait > 0 {
		return wait
	}
	t.noticed, t.notified = t.seq, time.Now()
	t.wake()
	return 0
}

// wake wakes all waiting callers. The caller must hold mu.
func (t *tracker) wake() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// hintAt records that a feed may have changed or, if name is "", that any feed may have changed.
func (t *tracker) hintAt(name string) {
	t.mu.Lock()
	if name == "" {
		t.anyHinted = true
	} else {
		t.hinted[name] = true
	}
	t.mu.Unlock()
	t.poke()
}

func (t *tracker) poke() {
	select {
	case t.hint <- struct{}{}:
	default:
	}
}

// saw records the newest page of a feed for callers that wait for changes of any feed.
func (s *trackers) saw(p *chain.Page) {
	s.mu.Lock()
	t := s.current
	s.mu.Unlock()
	if t != nil && t.saw(p.Feed, versionOf(p), p) {
		t.poke()
	}
}

// hintAt records that a feed may have changed.
func (s *trackers) hintAt(name string) {
	s.mu.Lock()
	t := s.current
	s.mu.Unlock()
	if t != nil {
		t.hintAt(name)
	}
}
