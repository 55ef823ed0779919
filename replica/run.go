package replica

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/digest/digests"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/snapshot/snapshots"
	"github.com/feedctl/feedctl/storage"
)

const (
	// atOnce is how many feeds are copied concurrently.
	atOnce = 8
	// lookEvery is the interval at which a source is polled if it cannot be watched, and
	// watchEvery if it can.
	lookEvery  = time.Second
	watchEvery = 10 * time.Second
	// finalTime limits the last pass, after the context has ended.
	finalTime = time.Minute
)

// Config configures a Copy.
type Config struct {
	// Name is the name of the feed and the snapshots to copy; "" copies all.
	Name string
	// Memory limits the memory, in bytes, for pages that have been read and not yet written, of all feeds and
	// snapshots together. 0 means 16 MiB; the minimum is 2 MiB.
	Memory int64
	// Follow makes Run continue until the context ends, and copy what is published meanwhile.
	Follow bool
	// Progress, if set, is called after something has been copied.
	Progress func(Report)
	// Logger receives warnings about retries. Defaults to discarding them.
	Logger *slog.Logger
}

// A Report is the result of a run so far.
type Report struct {
	Feeds     int // in the target now
	Snapshots Stats
	Pages     Stats // of feeds
	// Complete is when the target last had everything that the source had at the start of a
	// pass; zero if there has been no complete pass.
	Complete time.Time
}

// A Copy copies a store, or the feed and snapshots with one name.
type Copy struct {
	from, to storage.Store
	config   Config
	memory   *semaphore.Weighted
	feeds    map[string]*Feed

	mu     sync.Mutex
	report Report
}

// New returns a Copy from a store to another. It makes no requests.
func New(from, to storage.Store, config Config) *Copy {
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	memory := newMemory(cmp.Or(config.Memory, defaultMemory))
	return &Copy{from: from, to: to, config: config, memory: memory, feeds: make(map[string]*Feed)}
}

// Report returns the result so far. It may be called at any time.
func (c *Copy) Report() Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.report
}

// Run copies the source and, with Follow, what is published to it. When the context ends,
// a Run with Follow copies what was published until then and returns nil: if nothing more
// is published to the source, the target is equal to it. Without Follow, Run also returns
// transient errors; the next Run continues.
func (c *Copy) Run(ctx context.Context) error {
	changed := c.watch(ctx)
	for {
		err := c.pass(ctx)
		if !c.config.Follow {
			return err
		}
		if err != nil && ctx.Err() == nil {
			if permanent(err) {
				return err
			}
			c.config.Logger.WarnContext(ctx, "copy was interrupted, retrying", "error", err)
		}
		every := watchEvery
		if changed == nil || err != nil {
			every = lookEvery
		}
		select {
		case <-ctx.Done():
			final, cancel := context.WithTimeout(context.WithoutCancel(ctx), finalTime)
			defer cancel()
			for _, f := range c.feeds {
				f.quarantine.before = nil // so that the quarantine is copied even if no page has changed
			}
			return c.pass(final)
		case <-changed:
		case <-time.After(every):
		}
	}
}

// permanent reports whether retrying is useless.
func permanent(err error) bool {
	for _, e := range []error{
		ErrDiverged, chain.ErrCorrupt, chain.ErrPruned, layout.ErrName,
		storage.ErrPermission, storage.ErrLayout, storage.ErrUnsafe, storage.ErrFull,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// watch returns a channel from which changes of the source are received, or nil if it cannot be
// watched.
func (c *Copy) watch(ctx context.Context) <-chan struct{} {
	watcher, ok := storage.As[storage.Watcher](c.from)
	if !ok || !c.config.Follow {
		return nil
	}
	prefix := layout.FeedsPrefix
	if c.config.Name != "" {
		prefix += c.config.Name + "/"
	}
	changed, err := watcher.Watch(ctx, prefix)
	if err != nil {
		c.config.Logger.WarnContext(ctx, "cannot watch the source, polling it", "error", err)
		return nil
	}
	return changed
}

// pass copies the source once.
func (c *Copy) pass(ctx context.Context) error {
	feeds, snapshotNames, digested, err := c.names(ctx)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, name := range feeds {
		f := c.feeds[name]
		if f == nil {
			f = NewFeed(c.from, c.to, name)
			f.memory = c.memory
			c.feeds[name] = f
		}
		group.Go(func() error { return c.sync(ctx, f) })
	}
	for _, name := range snapshotNames {
		group.Go(func() error {
			stats, err := copySnapshots(ctx, c.from, c.to, name, c.memory)
			c.update(func(r *Report) { r.Snapshots.add(stats) })
			return err
		})
	}
	for _, name := range digested {
		group.Go(func() error { return c.copyDigest(ctx, name) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	c.update(func(r *Report) { r.Feeds, r.Complete = len(feeds), time.Now() })
	return nil
}

// sync brings one feed up to date. It skips a feed whose last page has been deleted since the feed
// was listed.
func (c *Copy) sync(ctx context.Context, f *Feed) error {
	before := f.stats
	err := f.Sync(ctx)
	if errors.Is(err, chain.ErrNoFeed) && c.config.Name == "" {
		err = nil
	}
	c.update(func(r *Report) {
		r.Pages.add(Stats{f.stats.Pages - before.Pages, f.stats.Entities - before.Entities, f.stats.Bytes - before.Bytes})
	})
	return err
}

func (c *Copy) update(change func(*Report)) {
	c.mu.Lock()
	change(&c.report)
	report := c.report
	c.mu.Unlock()
	if c.config.Progress != nil {
		c.config.Progress(report)
	}
}

// names returns the names of what is to be copied: feeds, snapshots, and feeds with state digests.
func (c *Copy) names(ctx context.Context) (feeds, snapshotNames, digested []string, err error) {
	if c.config.Name == "" {
		for name, err := range chain.Feeds(ctx, c.from, "") {
			if err != nil {
				return nil, nil, nil, err
			}
			feeds = append(feeds, name)
		}
		for name, err := range snapshots.Names(ctx, c.from, "") {
			if err != nil {
				return nil, nil, nil, err
			}
			snapshotNames = append(snapshotNames, name)
		}
		for name, err := range digests.Names(ctx, c.from, "") {
			if err != nil {
				return nil, nil, nil, err
			}
			digested = append(digested, name)
		}
		return feeds, snapshotNames, digested, nil
	}
	if err := layout.CheckName(c.config.Name); err != nil {
		return nil, nil, nil, err
	}
	for prefix, list := range map[string]*[]string{
		layout.FeedPages(c.config.Name): &feeds, layout.SnapshotIndexes(c.config.Name): &snapshotNames, layout.DigestRoots(c.config.Name): &digested,
	} {
		for _, err := range c.from.List(ctx, prefix, "") {
			if err != nil {
				return nil, nil, nil, err
			}
			*list = append(*list, c.config.Name)
			break
		}
	}
	if len(feeds)+len(snapshotNames) == 0 && !c.config.Follow {
		return nil, nil, nil, fmt.Errorf("copy %q: %w", c.config.Name, chain.ErrNoFeed)
	}
	return feeds, snapshotNames, digested, nil
}
