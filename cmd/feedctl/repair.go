package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/internal/progress"
	"github.com/feedctl/feedctl/internal/task"
	"github.com/feedctl/feedctl/repair"
	"github.com/feedctl/feedctl/storage"
)

func newRepair(a *app.App) *cobra.Command {
	r := &repairer{app: a}
	all := false
	c := &cobra.Command{
		Use:   "repair FEED|STORE#FEED...",
		Short: "Bring back feeds that lost objects in the store",
		Long: `Repair looks for missing and incomplete pages of each FEED in the store, and prints what it
would do. With --apply it does it. A feed without damage is not changed. With --all, it
examines all feeds in the store, which may be given as STORE instead of with --store. With
--json, the result for each feed is a line with an object.

If a backup has the missing object, restore that instead: read the output without --apply
first. Stop everything that publishes to the feed. Pages that cannot be kept are moved
aside, below feeds/FEED/aside/ in the store, and their entities are listed; consumers that
have read them meet a gap. If a repair is interrupted, run it again. Repair does not read
the bodies of pages that the feed keeps: see "feedctl verify".` +
			exit.Help(exit.NotFound, exit.Invalid, exit.Interrupted) + `

The status is 0 if nothing is left to repair. Without --apply it is 5 if a feed needs
repair.`,
		Example: `  feedctl repair zones
  feedctl repair zones --apply
  feedctl repair --all
  feedctl repair --all 's3://bucket/prefix?region=eu-central-1' --json`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case all && len(args) > 1:
				return exit.Usagef("repair --all takes one STORE, not %d", len(args))
			case !all && len(args) == 0:
				return exit.Usagef("repair needs a FEED, or --all")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			r.several = all || len(args) > 1
			if all {
				return r.store(c.Context(), storeOf(a, args))
			}
			return r.named(c.Context(), args)
		},
	}
	c.Flags().BoolVar(&r.config.Apply, "apply", false, "change the store, instead of printing what would be done")
	c.Flags().BoolVar(&all, "all", false, "repair all feeds in the store")
	return c
}

// A repairer repairs one feed after another.
type repairer struct {
	app     *app.App
	config  repair.Config
	several bool // feeds may have to be repaired

	examined int64
	damaged  []string // feeds that need repair
	failed   []error  // for feeds that could not be repaired or examined
	logged   time.Time
}

// named repairs the feeds that arguments name.
func (r *repairer) named(ctx context.Context, args []string) error {
	for _, arg := range args {
		store, name, err := r.app.OpenNamed(ctx, arg)
		if err == nil {
			err = r.app.Close(r.feed(ctx, store, name, arg))
		}
		switch {
		case errors.Is(err, chain.ErrNoFeed):
			r.examined++
			r.failed = append(r.failed, err)
		case err != nil:
			return err
		}
	}
	return r.result()
}

// store repairs all feeds of a store.
func (r *repairer) store(ctx context.Context, rawURL string) error {
	store, err := r.app.OpenStore(ctx, rawURL, task.Access{})
	if err != nil {
		return err
	}
	r.logged = time.Now()
	for name, err := range chain.Feeds(ctx, store, "") {
		if err == nil {
			r.progress(name)
			err = r.feed(ctx, store, name, name)
		}
		if err != nil && !errors.Is(err, chain.ErrNoFeed) { // only objects other than pages are left
			return err
		}
	}
	return r.result()
}

// feed repairs a feed and prints the result. It returns an error if there is no such feed, or if
// there is no use in continuing with other feeds.
func (r *repairer) feed(ctx context.Context, store storage.Store, name, arg string) error {
	report, err := repair.Feed(ctx, store, name, r.config)
	if ctx.Err() != nil || errors.Is(err, chain.ErrNoFeed) || errors.Is(err, storage.ErrNoStore) || errors.Is(err, storage.ErrUnavailable) {
		return err
	}
	r.examined++
	switch {
	case err != nil:
		r.failed = append(r.failed, err)
	case len(report.Steps) > 0:
		r.damaged = append(r.damaged, arg)
	}
	r.app.Console.Clear()
	if err != nil && !r.several && !r.app.JSON { // the command ends with it
		return nil
	}
	return r.app.Printf(report, "%v", report)
}

// progress shows how far the repair of a store has come.
func (r *repairer) progress(name string) {
	switch now := time.Now(); {
	case r.app.Terminal:
		r.app.Console.Show(fmt.Sprintf("repair: %s, now %s", human.Plural(r.examined, "feed", "feeds"), human.Printable(name)))
	case now.Sub(r.logged) >= progress.LogEvery:
		r.logged = now
		r.app.Log.Info("progress", "command", "repair", "feeds", r.examined, "feed", name)
	}
}

// result returns an error if something is left to repair.
func (r *repairer) result() error {
	r.app.Console.Clear()
	all := human.Plural(r.examined, "feed", "feeds")
	switch {
	case !r.several && len(r.failed) > 0:
		return r.failed[0]
	case len(r.failed) > 0:
		return fmt.Errorf("repair: %d of %s failed, the first because: %w", len(r.failed), all, r.failed[0])
	case r.config.Apply || len(r.damaged) == 0:
		return nil
	}
	err := exit.Errorf(exit.Invalid, "repair %s: the feed needs repair, nothing was changed", r.damaged[0])
	if r.several {
		err = exit.Errorf(exit.Invalid, "repair: %d of %s need repair, nothing was changed", len(r.damaged), all)
	}
	return exit.WithHint(err, "the missing objects from a backup, or --apply")
}
