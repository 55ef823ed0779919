package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/internal/progress"
	"github.com/feedctl/feedctl/internal/units"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/outbox"
)

type outboxRunFlags struct {
	outboxFlags
	feeds     []string
	all       bool
	once      bool
	adopt     bool
	metrics   string
	maxEntity int64

	quarantine quarantineLimit
}

func newOutboxRun(a *app) *cobra.Command {
	var f outboxRunFlags
	c := &cobra.Command{
		Use:   "run --db URL --feed FEED|--all",
		Short: "Move committed rows of the outbox to pages",
		Long: `Run moves the rows of the outbox to the pages of their feeds as they are committed, until
Ctrl-C or SIGTERM. Any number of runners may run, on any number of hosts: one works on each
feed, and another takes over within seconds if it is gone.

With --all it moves the rows of all feeds, including those that appear later. If a feed
needs attention, this is logged, and the others continue.

With --store URL the pages are in another store, and the feed's checkpoint records how far
the outbox has come. If a feed has an unknown checkpoint, because the database or the store
was restored from a backup, or because it belongs to another outbox, nothing is written to
it. --adopt continues such a feed: it deletes rows that are in the feed and moves the
others.

Rows that cannot be published are moved to the table outbox_quarantine, with the reason.
With --once, the exit status is 6 if there are more of them than --max-quarantine allows; by
default, if no row could be published.

With --metrics it serves metrics for Prometheus at /metrics.` + exitStatus(exitOK, exitError, exitUsage, exitInvalid, exitQuarantine, exitInterrupted),
		Example: `  feedctl outbox run --db postgres://feedctl@db.example.org/shop --all
  feedctl outbox run --db postgres://feedctl@db.example.org/shop --feed orders --store file:/var/lib/feedctl
  feedctl outbox run --db postgres://feedctl@db.example.org/shop --feed orders --once --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return runOutboxRun(c.Context(), a, &f, c)
		},
	}
	f.add(c)
	flags := c.Flags()
	flags.StringSliceVar(&f.feeds, "feed", nil, "`FEED` whose rows are moved; may be repeated")
	flags.BoolVar(&f.all, "all", false, "move the rows of all feeds")
	flags.BoolVar(&f.once, "once", false, "end when all rows that were committed have been moved")
	flags.BoolVar(&f.adopt, "adopt", false, "first adopt feeds with an unknown checkpoint")
	flags.StringVar(&f.metrics, "metrics", "", metricsUsage)
	units.SizeVar(flags, &f.maxEntity, "max-entity", 0, "put rows with more than this many `BYTES` into quarantine (default no limit)")
	f.quarantine.add(flags)
	c.MarkFlagsOneRequired("feed", "all")
	c.MarkFlagsMutuallyExclusive("feed", "all")
	c.MarkFlagsMutuallyExclusive("adopt", "all")
	return c
}

func runOutboxRun(ctx context.Context, a *app, f *outboxRunFlags, c *cobra.Command) (err error) {
	for _, name := range f.feeds {
		if err := layout.CheckName(name); err != nil {
			return err
		}
	}
	a.follower = !f.once
	want := access{create: true, follow: !f.once}
	db, err := f.open(ctx, a, want)
	if err != nil {
		return err
	}
	defer db.Close()
	m := &movers{db: db, app: a, once: f.once}
	m.config.Logger, m.config.MaxEntity = a.log, f.maxEntity
	store, err := f.pages(ctx, a, c, &m.config, want)
	if err != nil {
		return err
	}
	defer closing(&err, store.Close, "store")
	if f.adopt {
		if err := m.adopt(ctx, f.feeds); err != nil {
			return err
		}
	}
	stopMetrics, err := a.serveMetrics(f.metrics, newOutboxCollector(m))
	if err != nil {
		return err
	}
	defer closing(&err, stopMetrics, "metrics")
	stop := a.progress("outbox", m.status)
	defer stop()
	if f.all {
		err = m.runAll(ctx)
	} else {
		err = m.run(ctx, f.feeds)
	}
	stop()
	if err := errors.Join(outboxHint(err), m.print()); err != nil {
		return err
	}
	var moved, bad int64
	m.each(func(_ string, s outbox.Stats) { moved, bad = moved+s.Rows, bad+s.Quarantined })
	return f.quarantine.check(bad, moved+bad, "the table outbox_quarantine has them, with the reasons")
}

// movers are the runners of a command, one for each feed.
type movers struct {
	db     *outbox.DB
	app    *app
	config outbox.Config
	once   bool

	mu      sync.Mutex
	runners map[string]*outbox.Runner
}

func (m *movers) adopt(ctx context.Context, feeds []string) error {
	for _, name := range feeds {
		config := m.config
		config.Feed = name
		deleted, err := m.db.Adopt(ctx, config)
		if err != nil {
			return err
		}
		m.app.log.Warn("feed was adopted", "feed", name, "rows_found_in_it", deleted)
	}
	return nil
}

// start returns the runner of a feed, or nil if it has one already.
func (m *movers) start(name string) (*outbox.Runner, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.runners[name] != nil {
		return nil, nil
	}
	config := m.config
	config.Feed = name
	r, err := m.db.NewRunner(config)
	if err != nil {
		return nil, err
	}
	if m.runners == nil {
		m.runners = map[string]*outbox.Runner{}
	}
	m.runners[name] = r
	return r, nil
}

// run moves the rows of these feeds. The first error ends it.
func (m *movers) run(ctx context.Context, feeds []string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for _, name := range feeds {
		r, err := m.start(name)
		if err != nil {
			return err
		}
		if r == nil {
			continue // named twice
		}
		wg.Go(func() {
			if err := m.move(ctx, r); err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

func (m *movers) move(ctx context.Context, r *outbox.Runner) error {
	if m.once {
		return r.Drain(ctx)
	}
	return r.Run(ctx)
}

// feedsEvery is how often --all looks for further feeds.
const feedsEvery = 2 * time.Second

// runAll moves the rows of all feeds. It returns the errors of those that needed
// somebody when ctx ends, or with --once when all is done.
func (m *movers) runAll(ctx context.Context) error {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var failures []error
	for {
		feeds, err := m.db.Feeds(ctx)
		if err != nil && (m.once || errors.Is(err, outbox.ErrSetup)) {
			failures = append(failures, err)
			break
		}
		if err != nil && ctx.Err() == nil {
			m.app.log.Warn("cannot look for further feeds, trying again", "error", err)
		}
		for _, name := range feeds {
			r, err := m.start(name)
			if err != nil || r == nil {
				continue
			}
			wg.Go(func() {
				err := m.move(ctx, r)
				if err == nil || ctx.Err() != nil {
					return
				}
				m.app.log.Error("outbox of a feed has stopped", "feed", name, "error", err)
				mu.Lock()
				defer mu.Unlock()
				failures = append(failures, err)
			})
		}
		if m.once {
			break
		}
		select {
		case <-time.After(feedsEvery):
			continue
		case <-ctx.Done():
		}
		break
	}
	wg.Wait()
	return errors.Join(append(failures, context.Cause(ctx))...)
}

// each calls f for each runner, in the order of the feeds' names.
func (m *movers) each(f func(name string, s outbox.Stats)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	names := make([]string, 0, len(m.runners))
	for name := range m.runners {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		f(name, m.runners[name].Stats())
	}
}

func (m *movers) status() progress.Status {
	s := progress.Status{Lag: -1}
	m.each(func(_ string, one outbox.Stats) {
		s.Entities += one.Rows
		s.Bytes += one.Bytes
	})
	return s
}

func (m *movers) print() error {
	result := []outboxMovedJSON{}
	m.each(func(name string, s outbox.Stats) {
		result = append(result, outboxMovedJSON{Feed: name, Moved: s.Rows, Bytes: s.Bytes, Quarantined: s.Quarantined})
	})
	return m.app.print(result, func(w io.Writer) error {
		for _, r := range result {
			bad := ""
			if r.Quarantined > 0 {
				bad = ", " + human.Plural(r.Quarantined, "row", "rows") + " into quarantine"
			}
			if _, err := fmt.Fprintf(w, "moved %s to %s%s\n", human.Plural(r.Moved, "entity", "entities"), r.Feed, bad); err != nil {
				return err
			}
		}
		return nil
	})
}
