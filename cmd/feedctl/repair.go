package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/internal/progress"
	"github.com/feedctl/feedctl/repair"
	"github.com/feedctl/feedctl/storage"
)

func newRepair(a *app) *cobra.Command {
	r := &repairer{app: a}
	all := false
	c := &cobra.Command{
		Use:   "repair FEED|STORE#FEED...",
		Short: "Bring back feeds that lost objects in the store",
		Long: `Repair looks for missing and incomplete pages of each FEED in the store, and prints what it
would do. With --apply it does it. A feed without damage is not changed. With --all it
examines all feeds in the store, which may be given as STORE instead of by --store.

If the body of a page exists (in a directory, a page is two files), its metadata is restored
and verified by the digest in the next page. An incomplete page, such as in a copy made
during writes, is cut back to its last complete entity. As a last resort the feed ends with
the last complete page: the pages after it are moved aside, below feeds/FEED/aside/ in the
store, and their entities are listed. If the oldest pages are missing, the feed begins with
the next one, as if they had been pruned.

If a backup has the missing object, restore that instead: look at the output without --apply
first. Stop everything that publishes to the feed. Consumers that have read entities that
are moved aside meet a gap. If a repair is interrupted, run it again. Repair does not read
the bodies of pages that the feed keeps: see "feedctl verify".

If a feed cannot be repaired, the others still are. With --json, the result for each feed is
a line with an object.` +
			exit.Help(exit.NotFound, exit.Invalid, exit.Interrupted) + `

The status is 0 if nothing is left to repair. Without --apply it is 5 if a feed needs it.`,
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
				return r.store(c.Context(), a.storeOf(args))
			}
			return r.named(c.Context(), args)
		},
	}
	c.Flags().BoolVar(&r.apply, "apply", false, "change the store, instead of telling what would be done")
	c.Flags().BoolVar(&all, "all", false, "repair all feeds in the store")
	return c
}

// A repairer repairs one feed after another.
type repairer struct {
	app     *app
	apply   bool
	several bool // feeds may have to be repaired

	examined int
	damaged  []string // feeds that need repair
	failed   []error  // of those that could not be repaired, or not be examined
	logged   time.Time
}

// named repairs the feeds that arguments name.
func (r *repairer) named(ctx context.Context, args []string) error {
	for _, arg := range args {
		switch err := r.one(ctx, arg); {
		case errors.Is(err, chain.ErrNoFeed):
			r.examined++
			r.failed = append(r.failed, err)
		case err != nil:
			return err
		}
	}
	return r.result()
}

func (r *repairer) one(ctx context.Context, arg string) (err error) {
	store, name, err := r.app.openNamed(ctx, arg)
	if err != nil {
		return err
	}
	return r.app.end(r.feed(ctx, store, name, arg))
}

// store repairs all feeds of a store.
func (r *repairer) store(ctx context.Context, rawURL string) (err error) {
	store, err := r.app.openStoreAt(ctx, rawURL, access{})
	if err != nil {
		return err
	}
	r.logged = time.Now()
	for name, err := range chain.Feeds(ctx, store, "") {
		if err == nil {
			r.progress(name)
			err = r.feed(ctx, store, name, name)
		}
		if err != nil && !errors.Is(err, chain.ErrNoFeed) { // of which objects are left besides pages
			return err
		}
	}
	return r.result()
}

// feed repairs a feed and prints the result. It returns an error if there is no such feed, or
// no use in continuing with others.
func (r *repairer) feed(ctx context.Context, store storage.Store, name, arg string) error {
	report, err := repair.Feed(ctx, store, name, repair.Config{Apply: r.apply})
	if ctx.Err() != nil || errors.Is(err, chain.ErrNoFeed) || errors.Is(err, storage.ErrNoStore) || errors.Is(err, storage.ErrUnavailable) {
		return err
	}
	r.examined++
	if report == nil {
		report = &repair.Report{Feed: name, Steps: []repair.Step{}, Lost: []repair.Loss{}}
	}
	result, text := repairJSON{Report: report}, ""
	if err == nil {
		text = describeRepair(report)
		if len(report.Steps) > 0 {
			r.damaged = append(r.damaged, arg)
		}
	} else {
		r.failed = append(r.failed, err)
		result.Error = err.Error()
		if r.several { // otherwise it is what the command ends with
			text = result.Error + "\n"
		}
	}
	r.app.console.Clear()
	return r.app.print(result, func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	})
}

// progress shows how far the repair of a store has come.
func (r *repairer) progress(name string) {
	switch now := time.Now(); {
	case r.app.terminal:
		r.app.console.Show(fmt.Sprintf("repair: %s, now %s", human.Plural(int64(r.examined), "feed", "feeds"), human.Printable(name)))
	case now.Sub(r.logged) >= progress.LogEvery:
		r.logged = now
		r.app.log.Info("progress", "command", "repair", "feeds", r.examined, "feed", name)
	}
}

// result returns an error if something is left to repair.
func (r *repairer) result() error {
	r.app.console.Clear()
	switch {
	case !r.several && len(r.failed) > 0:
		return r.failed[0]
	case len(r.failed) > 0:
		return fmt.Errorf("repair: %d of %s failed, the first because: %w", len(r.failed), human.Plural(int64(r.examined), "feed", "feeds"), r.failed[0])
	case r.apply || len(r.damaged) == 0:
		return nil
	}
	err := exit.Errorf(exit.Invalid, "repair %s: the feed needs it: nothing was changed", r.damaged[0])
	if r.several {
		err = exit.Errorf(exit.Invalid, "repair: %d of %s need it: nothing was changed", len(r.damaged), human.Plural(int64(r.examined), "feed", "feeds"))
	}
	return exit.WithHint(err, "the missing objects from a backup, or --apply")
}

// describeRepair returns what a report says, in lines.
func describeRepair(r *repair.Report) string {
	var b strings.Builder
	for _, s := range r.Steps {
		switch s.Action {
		case repair.Restore:
			proof := ""
			if s.Proven {
				proof = ", which the digest in the next page proves"
			}
			fmt.Fprintf(&b, "restore page %d with %s%s\n", s.Page, human.Plural(int64(s.Entities), "entity", "entities"), proof)
		case repair.RaiseFloor:
			fmt.Fprintf(&b, "make page %d the oldest one\n", s.Page)
		case repair.MoveAside:
			if s.To == "" {
				fmt.Fprintf(&b, "remove what is left of page %d, which has no body\n", s.Page)
			} else {
				fmt.Fprintf(&b, "move page %d to %s\n", s.Page, s.To)
			}
		}
	}
	for _, l := range r.Lost {
		b.WriteString(describeLoss(l))
	}
	switch {
	case len(r.Steps) == 0:
		fmt.Fprintf(&b, "%s: %s: nothing to repair\n", r.Feed, pageRange(r.Oldest, r.Newest))
	case r.Newest == 0:
		fmt.Fprintf(&b, "%s: no page is left\n", r.Feed)
	default:
		verb := "would have"
		if r.Applied {
			verb = "has"
		}
		fmt.Fprintf(&b, "%s %s %s\n", r.Feed, verb, pageRange(r.Oldest, r.Newest))
	}
	return b.String()
}

// pageRange returns "page 3" or "pages 3 to 5".
func pageRange(first, last int64) string {
	if first == last {
		return fmt.Sprintf("page %d", first)
	}
	return fmt.Sprintf("pages %d to %d", first, last)
}

func describeLoss(l repair.Loss) string {
	var b strings.Builder
	fmt.Fprintf(&b, "lost of page %d: ", l.Page)
	if l.Entities < 0 {
		b.WriteString("all entities")
	} else {
		b.WriteString(human.Plural(int64(l.Entities), "entity", "entities"))
	}
	if !l.First.IsZero() || !l.Last.IsZero() {
		fmt.Fprintf(&b, " of %s to %s", formatBound(l.First), formatBound(l.Last))
	}
	switch {
	case l.FirstID != "":
		fmt.Fprintf(&b, ", Content-ID %s to %s", human.Printable(l.FirstID), human.Printable(l.LastID))
	case l.LastID != "":
		fmt.Fprintf(&b, ", Content-ID up to %s", human.Printable(l.LastID))
	}
	if l.Aside != "" {
		b.WriteString("; kept aside")
	}
	return b.String() + "\n"
}

// formatBound returns a time, or that it is not known.
func formatBound(t time.Time) string {
	if t.IsZero() {
		return "an unknown time"
	}
	return t.UTC().Format(time.RFC3339)
}
