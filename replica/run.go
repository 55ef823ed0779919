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
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/storage"
)

const (
	// atOnce is how many feeds are copied at the same time.
	atOnce = 8
	// lookEvery is how often a source that does not tell of changes is asked, and
	// watchEvery one that does.
	lookEvery  = time.Second
	watchEvery = 10 * time.Second
	// finalTime limits the last pass, after the context has ended.
	finalTime = time.Minute
)

// Config says what to copy.
type Config struct {
	// Name is that of the feed, and of the snapshots, to copy; "" copies all.
	Name string
	// Memory limits how many bytes of pages are held that were read and are not written yet,
	// of all feeds and snapshots together. 0: 16 MiB; at least 2 MiB.
	Memory int64
	// Follow has Run copy what is published until the context ends.
	Follow bool
	// Progress, if set, is called when something was copied.
	Progress func(Report)
	// Logger is told of what is tried again. Defaults to none.
	Logger *slog.Logger
}

// A Report says what a run has done.
type Report struct {
	Feeds     int // that the target has now
	Snapshots Stats
	Pages     Stats // of feeds
	// Complete is when the target last had all that the source had when a look at it began;
	// zero if it has not had that yet.
	Complete time.Time
}

// A Copy is the copying of a store, or of what has one name in it.
type Copy struct {
	from, to storage.Store
	config   Config
	memory   *semaphore.Weighted
	feeds    map[string]*Feed

	mu     sync.Mutex
	report Report
}

// New returns what copies from a store to another. It does not look at them.
func New(from, to storage.Store, config Config) *Copy {
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	memory := newMemory(cmp.Or(config.Memory, defaultMemory))
	return &Copy{from: from, to: to, config: config, memory: memory, feeds: make(map[string]*Feed)}
}

// Report returns what was done so far. It may be called at any time.
func (c *Copy) Report() Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.report
}

// Run copies what the source has and, if it follows, what is published there. When the
// context of a follower ends, it copies what was published until then, and returns nil:
// if nothing is published to the source any more, the target is equal to it. Errors that
// may pass end a run that does not follow; the next one continues.
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
				f.quarantine.before = nil // so that the quarantine is copied, even if no page has changed
			}
			return c.pass(final)
		case <-changed:
		case <-time.After(every):
		}
	}
}

// permanent reports whether trying again is of no use.
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

// watch returns a channel that tells of changes of the source; nil if it cannot.
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
		c.config.Logger.WarnContext(ctx, "source does not tell of changes", "error", err)
		return nil
	}
	return changed
}

// pass copies what the source has.
func (c *Copy) pass(ctx context.Context) error {
	feeds, snapshots, err := c.names(ctx)
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
	for _, name := range snapshots {
		group.Go(func() error {
			stats, err := copySnapshots(ctx, c.from, c.to, name, c.memory)
			c.update(func(r *Report) { r.Snapshots.add(stats) })
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	c.update(func(r *Report) { r.Feeds, r.Complete = len(feeds), time.Now() })
	return nil
}

// sync brings one feed up to date. One whose last page was deleted since its name was
// listed is left as it is.
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

// names returns which feeds and snapshots to copy.
func (c *Copy) names(ctx context.Context) (feeds, snapshots []string, err error) {
	if c.config.Name == "" {
		for name, err := range chain.Feeds(ctx, c.from, "") {
			if err != nil {
				return nil, nil, err
			}
			feeds = append(feeds, name)
		}
		for name, err := range chain.Snapshots(ctx, c.from, "") {
			if err != nil {
				return nil, nil, err
			}
			snapshots = append(snapshots, name)
		}
		return feeds, snapshots, nil
	}
	if err := layout.CheckName(c.config.Name); err != nil {
		return nil, nil, err
	}
	for prefix, list := range map[string]*[]string{
		layout.FeedPages(c.config.Name): &feeds, layout.SnapshotIndexes(c.config.Name): &snapshots,
	} {
		for _, err := range c.from.List(ctx, prefix, "") {
			if err != nil {
				return nil, nil, err
			}
			*list = append(*list, c.config.Name)
			break
		}
	}
	if len(feeds)+len(snapshots) == 0 && !c.config.Follow {
		return nil, nil, fmt.Errorf("copy %q: %w", c.config.Name, chain.ErrNoFeed)
	}
	return feeds, snapshots, nil
}
