package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/internal/progress"
	"github.com/feedctl/feedctl/internal/task"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/outbox"
	"github.com/feedctl/feedctl/snapshot/snapshots"
)

type outboxAttachFlags struct {
	task.Outbox
	capture  outbox.Capture
	snapshot bool
}

func newOutboxAttach(a *app.App) *cobra.Command {
	var f outboxAttachFlags
	c := &cobra.Command{
		Use:   "attach --db URL --table TABLE --feed FEED",
		Short: "Publish the changes of a table",
		Long: `Attach installs triggers that publish the changes of TABLE to FEED through the outbox, in
the transactions that make them: a PUT with the row as a JSON object when it is inserted or
updated, a DELETE when it is deleted or truncated, and both when its key changes. The user
must own the table. Attaching a table again replaces its columns, key and feed; do so after
adding a partition.

With --snapshot, the current contents become a snapshot with the name of the feed, and the
feed continues exactly where the snapshot ends ("feedctl consume --from snapshot"). Writers
are not blocked meanwhile. Use the same --store as for "run".` + exit.Help(exit.Interrupted),
		Example: `  feedctl outbox attach --db postgres://owner@db.example.org/shop --table public.products --feed products
  feedctl outbox attach --db postgres://owner@db.example.org/shop --table products --feed products --key sku --columns sku,name,price --snapshot`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			f.Pages = pagesOf(a, c)
			return runOutboxAttach(c.Context(), a, &f)
		},
	}
	addOutbox(c, &f.Outbox)
	flags := c.Flags()
	flags.StringVar(&f.capture.Table, "table", "", "`TABLE` whose changes are published")
	flags.StringVar(&f.capture.Feed, "feed", "", "`FEED` to publish to")
	flags.StringSliceVar(&f.capture.Key, "key", nil, "`COLUMNS` that are the key, joined by commas (default: the primary key)")
	flags.StringSliceVar(&f.capture.Columns, "columns", nil, "`COLUMNS` that are published, joined by commas (default: all)")
	flags.BoolVar(&f.snapshot, "snapshot", false, "make a snapshot of the current contents")
	app.Must(c.MarkFlagRequired("table"))
	app.Must(c.MarkFlagRequired("feed"))
	return c
}

// outboxCaptureJSON is printed by "outbox attach" and "outbox detach".
type outboxCaptureJSON struct {
	Table string `json:"table,omitempty"`
	Feed  string `json:"feed,omitempty"`
	// Snapshot is the snapshot of the table's contents, if one was requested.
	Snapshot *task.Snapshot `json:"snapshot,omitempty"`
}

func runOutboxAttach(ctx context.Context, a *app.App, f *outboxAttachFlags) error {
	if err := layout.CheckName(f.capture.Feed); err != nil {
		return err
	}
	db, err := f.Open(ctx, &a.Env, task.Access{Create: true})
	if err != nil {
		return err
	}
	result := outboxCaptureJSON{Table: f.capture.Table, Feed: f.capture.Feed}
	if !f.snapshot {
		err = db.Attach(ctx, f.capture)
	} else {
		result.Snapshot, err = f.makeSnapshot(ctx, a, db)
	}
	if err != nil {
		return task.HintOutbox(err)
	}
	return a.Print(result, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "changes of %s are published to %s\n", result.Table, result.Feed)
		if s := result.Snapshot; s != nil && err == nil {
			_, err = fmt.Fprintf(w, "snapshot %s/%s has %s\n", s.Name, s.ID, human.Plural(*s.Entities, "entity", "entities"))
		}
		return err
	})
}

func (f *outboxAttachFlags) makeSnapshot(ctx context.Context, a *app.App, db *outbox.DB) (_ *task.Snapshot, err error) {
	config := outbox.Config{Logger: a.Log}
	if err := f.OpenPages(ctx, &a.Env, &config, task.Access{Create: true}); err != nil {
		return nil, err
	}
	var entities atomic.Int64
	a.Progress("snapshot", func() progress.Status { return progress.Status{Entities: entities.Load(), Lag: -1} })
	index, err := db.AttachSnapshot(ctx, f.capture, config, snapshots.Config{
		Progress: func(n int64, _ int) { entities.Store(n) },
	})
	if errors.Is(err, outbox.ErrEmpty) {
		return nil, exit.WithHint(err, "consuming the feed from its beginning: changes are published from now on")
	}
	if err != nil {
		return nil, err
	}
	result := task.SnapshotOf(f.capture.Feed, index, len(index.Pages))
	return &result, nil
}
