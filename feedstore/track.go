package feedstore

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/storage"
)

// A pace says how often a tracker polls feeds that do not change.
type pace struct {
	rate    float64       // polls per second, of all feeds together
	longest time.Duration // time between two polls of a feed, unless there are too many feeds
	list    time.Duration // time between two listings of the feeds
}

// paceOf returns the pace for a store. notifies says whether the store reports changes.
func paceOf(store storage.Store, notifies bool) pace {
	switch remote := storage.PropertiesOf(store).Remote; {
	case remote && notifies:
		return pace{rate: headsRate, longest: time.Minute, list: time.Minute}
	case remote:
		return pace{rate: headsRate, longest: 10 * time.Second, list: 30 * time.Second}
	case notifies:
		return pace{rate: 100, longest: 10 * time.Second, list: 10 * time.Second}
	default:
		return pace{rate: 1000, longest: time.Second, list: time.Second}
	}
}

const (
	pollTimeout = 30 * time.Second // limits one poll of a feed
	// sweepEvery is the interval at which all feeds are examined for those that are due. This is not done
	// after each change, whose cost must not depend on the number of feeds.
	sweepEvery = time.Second
	// pollsAtOnce is the maximum number of polls under way. As long as fewer polls hang, they do not delay
	// the others.
	pollsAtOnce = 16
	// pollFailures is how many polls in a row of a feed that has not been seen yet may fail before
	// it is considered damaged.
	pollFailures = 3
	// hintsPerList is how many times, between two regular listings, feeds are listed and polled because of a
	// hint that any feed may have changed. The PostgreSQL driver gives such a hint every second if the
	// database cannot notify it.
	hintsPerList = 6
)

// run polls all feeds at first, and later those that may have changed. In addition, it polls each feed from
// time to time.
func (t *tracker) run(ctx context.Context) {
	var polls sync.WaitGroup
	defer polls.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	notifies := t.watch(ctx)
	pace := paceOf(t.reader.store, notifies)
	var listed, hinted, swept time.Time
	for !t.abandoned() {
		anyHinted := time.Since(hinted) >= pace.list/hintsPerList && t.takeAny()
		if anyHinted {
			hinted = time.Now()
		}
		if anyHinted || listed.IsZero() || time.Since(listed) >= pace.list {
			t.list(ctx)
			listed, swept = time.Now(), time.Time{}
		}
		names := t.takeHinted()
		if time.Since(swept) >= sweepEvery {
			swept = time.Now()
			names = append(names, t.due(pace)...)
		}
		t.poll(ctx, &polls, names, pace)
		if ctx.Err() != nil {
			return
		}
		t.polled()
		again := max(sweepEvery-time.Since(swept), 0)
		if wait := t.notify(); wait > 0 {
			again = min(again, wait)
		}
		timer := time.NewTimer(again)
		select {
		case <-timer.C:
		case <-t.hint:
			select { // wait for further changes, to poll the feeds together
			case <-time.After(noticeEvery / 4):
			case <-ctx.Done():
			}
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// watch makes the store report changes. It returns false if the store cannot do that.
func (t *tracker) watch(ctx context.Context) bool {
	watcher, ok := storage.As[storage.KeyWatcher](t.reader.store)
	if !ok {
		return false
	}
	err := watcher.WatchKeys(ctx, layout.FeedsPrefix, func(key string) {
		name, _, ok := strings.Cut(strings.TrimPrefix(key, layout.FeedsPrefix), "/")
		if !ok {
			name = "" // any feed may have changed
		}
		t.hintAt(name)
	})
	if err != nil {
		t.reader.log.WarnContext(ctx, "cannot watch feeds, falling back to polling", "error", err)
	}
	return err == nil
}

// takeAny reports whether there was a hint that any feed may have changed. If so, it makes all feeds due.
func (t *tracker) takeAny() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.anyHinted {
		return false
	}
	t.anyHinted = false
	for _, feed := range t.byName {
		feed.hinted = true
	}
	return true
}

// list looks for feeds that are new or gone, and makes them due.
func (t *tracker) list(ctx context.Context) {
	there := map[string]bool{}
	for name, err := range chain.Feeds(ctx, t.reader.store, "") {
		if err != nil {
			t.failed(ctx, err)
			return
		}
		there[name] = true
	}
	t.failed(ctx, nil)
	t.mu.Lock()
	defer t.mu.Unlock()
	for name := range there {
		if feed := t.byName[name]; feed == nil {
			t.byName[name] = &tracked{}
			t.unseen++
		} else if feed.seq > 0 && feed.version == "" {
			feed.polled, feed.interval = time.Time{}, 0 // the feed exists again
		}
	}
	for name, feed := range t.byName {
		if !there[name] && (feed.seq == 0 || feed.version != "") {
			feed.polled, feed.interval = time.Time{}, 0
		}
	}
}

// failed records whether feeds can be listed, and wakes the waiting callers if that has changed.
func (t *tracker) failed(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if (err == nil) == (t.failure == nil) {
		return
	}
	if err != nil {
		t.reader.log.WarnContext(ctx, "cannot list feeds to notice changes", "error", err)
	}
	t.failure = err
	t.wake()
}

// takeHinted returns the feeds that may have changed, and records that they are being polled. A feed whose
// poll is under way is left for later, since that poll may not see the change.
func (t *tracker) takeHinted() (names []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name := range t.hinted {
		if t.polling[name] {
			continue
		}
		delete(t.hinted, name)
		feed := t.byName[name]
		if feed == nil && layout.CheckName(name) != nil {
			continue
		}
		if feed != nil {
			feed.hinted = true
		}
		t.polling[name] = true
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// due returns the feeds that are to be polled without a hint, and records that they are being polled. These
// are the feeds that have not been polled yet, and as many others as the pace allows for one sweepEvery,
// beginning with those that have waited longest. Feeds whose poll is under way are left out.
func (t *tracker) due(p pace) (names []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	type waiting struct {
		name   string
		polled time.Time
	}
	var others []waiting
	room := int(p.rate*sweepEvery.Seconds()) - len(t.polling)
	for name, feed := range t.byName {
		switch {
		case t.polling[name]:
		case feed.polled.IsZero():
			names = append(names, name)
		case (feed.hinted || now.Sub(feed.polled) >= feed.interval) && (feed.version != "" || feed.seq == 0):
			others = append(others, waiting{name, feed.polled})
		}
	}
	slices.Sort(names)
	slices.SortFunc(others, func(a, b waiting) int { return cmp.Or(a.polled.Compare(b.polled), cmp.Compare(a.name, b.name)) })
	for _, other := range others[:max(0, min(len(others), room))] {
		names = append(names, other.name)
	}
	for _, name := range names {
		t.polling[name] = true
	}
	return names
}

// poll polls feeds, and waits at most noticeEvery for the polls to end: a poll that hangs must not delay
// changes of other feeds. The polls are counted in the given WaitGroup.
func (t *tracker) poll(ctx context.Context, all *sync.WaitGroup, names []string, p pace) {
	if len(names) == 0 {
		return
	}
	longest := max(p.longest, time.Duration(float64(t.count())/p.rate*float64(time.Second)))
	done := make(chan struct{})
	all.Go(func() {
		defer close(done)
		var some sync.WaitGroup
		defer some.Wait()
		for _, name := range names {
			select {
			case t.polls <- struct{}{}:
			case <-ctx.Done():
				return
			}
			some.Go(func() {
				t.pollFeed(ctx, name, longest)
				<-t.polls
			})
		}
	})
	timer := time.NewTimer(noticeEvery)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

func (t *tracker) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.byName)
}

// pollFeed polls one feed, and sets when it is to be polled again.
func (t *tracker) pollFeed(ctx context.Context, name string, longest time.Duration) {
	t.mu.Lock()
	var last *chain.Page
	var seq int64
	failures, hinted, failed := 0, false, false
	if feed := t.byName[name]; feed != nil {
		last, seq, failures, hinted = feed.page, feed.seq, feed.failures, feed.hinted
		feed.hinted = false
	}
	t.mu.Unlock()
	within, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	p, err := t.reader.head(within, name, last)
	switch {
	case ctx.Err() != nil:
		return
	case err == nil:
		t.saw(name, versionOf(p), p)
	case errors.Is(err, chain.ErrNoFeed), errors.Is(err, chain.ErrDeleted):
		t.saw(name, "", nil)
	case errors.Is(err, chain.ErrCorrupt), errors.Is(err, storage.ErrLayout):
		t.saw(name, damaged, nil)
	default:
		failed = true
		t.reader.log.DebugContext(ctx, "poll a feed", "feed", name, "error", err)
		if failures++; seq == 0 && failures == pollFailures { // the feed must not prevent the list from being complete
			t.saw(name, damaged, nil)
		}
	}
	if err == nil {
		failures = 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.polling, name)
	if t.hinted[name] || t.seq > t.noticed {
		t.poke() // run may be waiting for more to do
	}
	feed := t.byName[name]
	if feed == nil {
		return
	}
	if feed.seq != seq || hinted && failed {
		feed.interval = firstPoll
	} else {
		feed.interval = min(max(2*feed.interval, firstPoll), longest)
	}
	feed.polled, feed.failures = time.Now(), failures
}

// polled marks the list of feeds as complete once each feed has been polled.
func (t *tracker) polled() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.complete || t.failure != nil || t.unseen > 0 {
		return
	}
	t.complete = true
	t.wake()
}

// head returns the newest page of a feed. If the reader has a state of the feed, it uses that. All pages of
// a feed that was deleted are below its floor, whether they have been removed or not.
func (r *Reader) head(ctx context.Context, name string, last *chain.Page) (*chain.Page, error) {
	if f, ok := r.feeds.Get(name); ok {
		p, _, err := f.pollWithFloor(ctx)
		return p, err
	}
	reader := chain.NewReader(r.store, name)
	if last != nil {
		reader.Remember(last)
	}
	return reader.Newest(ctx)
}
