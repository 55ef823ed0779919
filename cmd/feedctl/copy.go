package main

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/internal/locate"
	"github.com/feedctl/feedctl/internal/metrics"
	"github.com/feedctl/feedctl/internal/progress"
	"github.com/feedctl/feedctl/internal/task"
	"github.com/feedctl/feedctl/replica"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/storage/stores"
)

func newCopy(a *app.App) *cobra.Command {
	var follow bool
	var metrics string
	c := &cobra.Command{
		Use:   "copy STORE|STORE#NAME STORE",
		Short: "Copy feeds and snapshots to another store while they are in use",
		Long: `Copy copies the feed NAME and the snapshots of that name, or without NAME all feeds and
snapshots of the store, to another store of any kind, as a backup or to move to it. The
copy has the same pages, positions and names: consumers and bridges continue with the copy
at their positions. At any moment, the copy is an earlier state of the feed. Run the same
command again to continue a copy that was interrupted, or to bring it up to date. Pages
that were pruned from the source are pruned from the copy, too; snapshots that were deleted
from the source stay.

With --follow, copy runs until it is stopped. To switch over: stop publishing to the
source; stop copy with Ctrl-C or SIGTERM, after which it copies what is left and ends with
status 0; then publish to the copy. A target that has other entities than the source is
refused and left as it is.` + exit.Help(exit.NotFound, exit.Gap, exit.Invalid, exit.Interrupted),
		Example: `  feedctl copy file:/var/lib/feedctl file:/backup/feedctl
  feedctl copy file:/var/lib/feedctl#zones 's3://bucket/prefix?region=eu-central-1' --follow
  feedctl copy 'postgres://feedctl@db.example.org/shop' file:./copy --json`,
		Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			return runCopy(c.Context(), a, args[0], args[1], follow, metrics)
		},
	}
	c.Flags().BoolVar(&follow, "follow", false, "keep copying what is published, until a signal arrives")
	c.Flags().StringVar(&metrics, "metrics", "", app.MetricsUsage)
	return c
}

func runCopy(ctx context.Context, a *app.App, source, target string, follow bool, address string) error {
	fromURL, name, err := storeOrStored(a, source)
	if err != nil {
		return err
	}
	toURL, other, err := storeOrStored(a, target)
	switch {
	case err != nil:
		return err
	case other != "" && other != name:
		return exit.Usagef("copy %s to %s: a copy keeps its name, which the digests of its pages contain", sink.Redact(source), sink.Redact(target))
	case locate.Stored{Store: fromURL}.Identity() == locate.Stored{Store: toURL}.Identity():
		return exit.Usagef("copy %s to %s: that is the same store", sink.Redact(source), sink.Redact(target))
	}
	var copied atomic.Pointer[replica.Copy]
	if err := a.ServeMetrics(address, metrics.Copy(copied.Load)); err != nil {
		return err
	}
	from, err := a.OpenStore(ctx, fromURL, task.Access{Follow: follow})
	if err != nil {
		return err
	}
	to, err := a.OpenStore(ctx, toURL, task.Access{Create: true, Follow: follow})
	if err != nil {
		return err
	}
	c := replica.New(from, to, replica.Config{Name: name, Follow: follow, Logger: a.Log})
	copied.Store(c)
	a.Progress("copy", func() progress.Status {
		r := c.Report()
		return progress.Status{Entities: r.Pages.Entities, Bytes: r.Pages.Bytes + r.Snapshots.Bytes, Lag: -1}
	})
	err = c.Run(ctx)
	return errors.Join(hintCopy(err), printCopied(a, c.Report(), sink.Redact(source), sink.Redact(target)))
}

// storeOrStored reads an argument that is a store, or names something in a store.
func storeOrStored(a *app.App, arg string) (store, name string, err error) {
	if stores.IsURL(arg) && !strings.Contains(arg, "#") {
		return arg, "", nil
	}
	at, err := a.Parse(arg)
	return at.Store, at.Name, err
}

func hintCopy(err error) error {
	switch {
	case errors.Is(err, replica.ErrDiverged):
		return exit.WithHint(err, "another target: nothing in this one was overwritten")
	case errors.Is(err, chain.ErrPruned):
		return exit.WithHint(err, "a new target: the source has pruned what comes next in this one")
	}
	return err
}

// printCopied prints what was copied, even by a run that failed.
func printCopied(a *app.App, r replica.Report, source, target string) error {
	result := copyJSON{
		Source: source, Target: target, Feeds: r.Feeds, Entities: r.Pages.Entities, Pages: r.Pages.Pages,
		SnapshotPages: r.Snapshots.Pages, Bytes: r.Pages.Bytes + r.Snapshots.Bytes,
	}
	return a.Printf(result, "copied %s, %s of feeds and %s of snapshots (%s) to %s\n", human.Plural(result.Entities, "entity", "entities"),
		human.Plural(result.Pages, "page", "pages"), human.Plural(result.SnapshotPages, "page", "pages"), human.Bytes(result.Bytes), target)
}
