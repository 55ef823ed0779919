package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
)

type listFlags struct {
	limit int
	after string
}

func newList(a *app) *cobra.Command {
	var f listFlags
	c := &cobra.Command{
		Use:   "list [STORE]",
		Short: "List the feeds and snapshots in a store",
		Long: `List prints a line for each feed and each name of snapshots in the store, by default that of
--store, as it finds them: feeds first, both in the order of their names. Of a feed it tells
how many pages it has, entities and bytes of the newest of them, and its age: that of the
newest entity. Of a name of snapshots it tells pages, entities, bytes and age of the newest.

It takes a few requests for each line, however large a feed is, and prints it at once. With
--limit and --after it pages through a store with very many. With --json, each line is an
object.` + exitStatus(exitOK, exitError, exitUsage, exitNotFound, exitInvalid, exitInterrupted),
		Example: `  feedctl list file:/var/lib/feedctl
  feedctl list 's3://bucket/prefix?region=eu-central-1' --limit 100 --after zones --json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return runList(c.Context(), a, a.storeOf(args), &f)
		},
	}
	c.Flags().IntVar(&f.limit, "limit", 0, "end after this `NUMBER` of lines (default: no limit)")
	c.Flags().StringVar(&f.after, "after", "", "begin after this `NAME`, of feeds and of snapshots")
	return c
}

func runList(ctx context.Context, a *app, rawURL string, f *listFlags) (err error) {
	if f.limit < 0 {
		return usagef("invalid --limit %d: must not be negative", f.limit)
	}
	if f.after != "" {
		if err := layout.CheckName(f.after); err != nil {
			return usagef("--after: %w", err)
		}
	}
	store, err := a.openStoreAt(ctx, rawURL, access{})
	if err != nil {
		return err
	}
	defer closing(&err, store.Close, "store")
	l := &lister{app: a, store: store, now: time.Now(), left: f.limit}
	for name, err := range chain.Feeds(ctx, store, f.after) {
		if err == nil {
			err = l.feed(ctx, name)
		}
		if err != nil || l.done {
			return err
		}
	}
	for name, err := range chain.Snapshots(ctx, store, f.after) {
		if err == nil {
			err = l.snapshot(ctx, name)
		}
		if err != nil || l.done {
			return err
		}
	}
	return nil
}

// A lister prints line after line.
type lister struct {
	app   *app
	store storage.Store
	now   time.Time
	left  int // lines to print; 0: no limit
	lines int
	done  bool
}

func (l *lister) print(line listJSON) error {
	if l.lines == 0 && !l.app.json {
		if _, err := fmt.Fprintf(l.app.out, listFormat, "KIND", "NAME", "PAGES", "NEWEST ENTITIES", "NEWEST BYTES", "AGE"); err != nil {
			return err
		}
	}
	l.lines++
	l.done = l.lines == l.left
	return l.app.print(line, func(w io.Writer) error {
		if line.Error != "" {
			_, err := fmt.Fprintf(w, "%-8s  %-40s  %s\n", line.Kind, line.Name, printable(line.Error))
			return err
		}
		_, err := fmt.Fprintf(w, listFormat, line.Kind, line.Name, formatCount(line.Pages), formatCount(line.Newest.Entities),
			formatBytes(line.Newest.Bytes), formatDuration(l.now.Sub(line.Newest.Time)))
		return err
	})
}

// listFormat has columns of fixed width, since no line waits for the next.
const listFormat = "%-8s  %-40s  %10s  %15s  %12s  %s\n"

// feed prints a feed. One that is damaged is named, and does not hide those after it; one
// without pages is not a feed.
func (l *lister) feed(ctx context.Context, name string) error {
	reader := chain.NewReader(l.store, name)
	p, err := reader.Newest(ctx)
	switch {
	case errors.Is(err, chain.ErrNoFeed):
		return nil
	case errors.Is(err, chain.ErrCorrupt):
		return l.print(listJSON{Kind: "feed", Name: name, Error: err.Error()})
	case err != nil:
		return err
	}
	floor, err := reader.Floor(ctx)
	if err != nil {
		return err
	}
	return l.print(listJSON{
		Kind: "feed", Name: name, Pages: p.Number - floor + 1, Newest: &newestJSON{int64(p.Entities), p.Size, p.Last},
	})
}

// snapshot prints the newest snapshot of a name.
func (l *lister) snapshot(ctx context.Context, name string) error {
	ids, err := producer.Snapshots(ctx, l.store, name)
	if err != nil || len(ids) == 0 {
		return err
	}
	id := ids[len(ids)-1]
	index, err := readIndex(ctx, l.store, name, id)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return nil // deleted meanwhile
	case isInvalid(err):
		return l.print(listJSON{Kind: "snapshot", Name: name, Error: err.Error()})
	case err != nil:
		return err
	}
	bytes := int64(0)
	for entry, err := range l.store.List(ctx, layout.SnapshotPages(name, id), "") {
		if err != nil {
			return err
		}
		bytes += entry.Size
	}
	return l.print(listJSON{
		Kind: "snapshot", Name: name, Pages: int64(index.PageCount), Newest: &newestJSON{index.Entities, bytes, index.CreatedAt},
	})
}
