package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/internal/locate"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/snapshot"
	"github.com/feedctl/feedctl/snapshot/snapshots"
	"github.com/feedctl/feedctl/storage"
)

type listFlags struct {
	limit  int
	after  string
	client clientFlags
}

func newList(a *app) *cobra.Command {
	var f listFlags
	c := &cobra.Command{
		Use:   "list [STORE|URL]",
		Short: "List the feeds and snapshots in a store or on a server",
		Long: `List prints a line for each feed and each name of snapshots in the store, by default that of
--store, as it finds them: feeds first, both in the order of their names. Of a feed it tells
how many pages it has, entities and bytes of the newest of them, and its age: that of the
newest entity. Of a name of snapshots it tells pages, entities, bytes and age of the newest.
One that is damaged has a line with the error instead; the exit status is then 5.

It takes a few requests for each line, however large a feed is, and prints it at once. With
--limit and --after it pages through a store with very many. With --json, each line is an
object.

With the URL of a server, it prints the names and URLs that the server lists, with a request
for each 1,000. --credentials-file and the flags after it are for this.` + exit.Help(exit.NotFound, exit.Invalid, exit.Interrupted),
		Example: `  feedctl list file:/var/lib/feedctl
  feedctl list 's3://bucket/prefix?region=eu-central-1' --limit 100 --after zones --json
  feedctl list https://data.example.org`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			if len(args) == 1 && locate.IsWeb(args[0]) {
				return listServer(c.Context(), a, args[0], &f)
			}
			return runList(c.Context(), a, a.storeOf(args), &f)
		},
	}
	c.Flags().IntVar(&f.limit, "limit", 0, "end after this `NUMBER` of lines (default: no limit)")
	c.Flags().StringVar(&f.after, "after", "", "begin after this `NAME`, of feeds and of snapshots")
	f.client.addHeaders(c.Flags())
	return c
}

// check finds what is wrong with the flags.
func (f *listFlags) check() error {
	if f.limit < 0 {
		return exit.Usagef("invalid --limit %d: must not be negative", f.limit)
	}
	if f.after != "" {
		if err := layout.CheckName(f.after); err != nil {
			return exit.Usagef("--after: %w", err)
		}
	}
	return nil
}

func runList(ctx context.Context, a *app, rawURL string, f *listFlags) (err error) {
	store, err := a.openStoreAt(ctx, rawURL, access{})
	if err != nil {
		return err
	}
	l := &lister{app: a, store: store, now: time.Now(), left: f.limit}
	if err := l.all(ctx, f.after); err != nil {
		return err
	}
	if l.damaged > 0 {
		return fmt.Errorf("list %s: %w: %s", sink.Redact(rawURL), errDamaged, human.Plural(l.damaged, "feed or snapshot", "feeds and snapshots"))
	}
	return nil
}

// errDamaged is wrapped by the error of a list with lines that say what is damaged.
var errDamaged = fmt.Errorf("%w: see the lines with an error", chain.ErrCorrupt)

// all prints all lines.
func (l *lister) all(ctx context.Context, after string) error {
	for name, err := range chain.Feeds(ctx, l.store, after) {
		if err == nil {
			err = l.feed(ctx, name)
		}
		if err != nil || l.done {
			return err
		}
	}
	for name, err := range snapshots.Names(ctx, l.store, after) {
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
	app     *app
	store   storage.Store
	now     time.Time
	left    int   // lines to print; 0: no limit
	lines   int   // printed
	damaged int64 // of them with an error
	done    bool
}

// print prints a line: as JSON, or as text writes it, below a line with the titles.
func (l *lister) print(line any, titles string, text func(io.Writer) error) error {
	if l.lines == 0 && !l.app.json {
		if _, err := io.WriteString(l.app.out, titles); err != nil {
			return err
		}
	}
	l.lines++
	l.done = l.lines == l.left
	return l.app.print(line, text)
}

// stored prints the line of what is in a store.
func (l *lister) stored(line listJSON) error {
	titles := fmt.Sprintf(listFormat, "KIND", "NAME", "PAGES", "NEWEST ENTITIES", "NEWEST BYTES", "AGE")
	return l.print(line, titles, func(w io.Writer) error {
		if line.Error != "" {
			_, err := fmt.Fprintf(w, listedFormat, line.Kind, line.Name, human.Printable(line.Error))
			return err
		}
		_, err := fmt.Fprintf(w, listFormat, line.Kind, line.Name, human.Count(line.Pages), human.Count(line.Newest.Entities),
			human.Bytes(line.Newest.Bytes), human.Duration(l.now.Sub(line.Newest.Time)))
		return err
	})
}

// broken prints the line of what is damaged in a store, and does not hide what comes after it.
func (l *lister) broken(kind, name string, err error) error {
	l.damaged++
	return l.stored(listJSON{Kind: kind, Name: name, Error: err.Error()})
}

// isDamaged reports whether an error is about what a store holds, and not about the way there.
func isDamaged(err error) bool {
	return exit.IsInvalid(err) || errors.Is(err, storage.ErrLayout)
}

// listFormat has columns of fixed width, since no line waits for the next.
const listFormat = "%-8s  %-40s  %10s  %15s  %12s  %s\n"

const listedFormat = "%-8s  %-40s  %s\n"

// feed prints a feed. One without pages is not a feed.
func (l *lister) feed(ctx context.Context, name string) error {
	reader := chain.NewReader(l.store, name)
	p, err := reader.Newest(ctx)
	switch {
	case errors.Is(err, chain.ErrNoFeed):
		return nil
	case isDamaged(err):
		return l.broken("feed", name, err)
	case err != nil:
		return err
	}
	floor, err := reader.Floor(ctx)
	switch {
	case isDamaged(err):
		return l.broken("feed", name, err)
	case err != nil:
		return err
	}
	return l.stored(listJSON{
		Kind: "feed", Name: name, Pages: p.Number - floor + 1, Newest: &newestJSON{int64(p.Entities), p.Size, p.Last},
	})
}

// snapshot prints the newest snapshot of a name.
func (l *lister) snapshot(ctx context.Context, name string) error {
	id, err := snapshots.Newest(ctx, l.store, name)
	var index *snapshot.Stored
	if err == nil {
		index, err = snapshots.Read(ctx, l.store, name, id)
	}
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return nil // only remains, or deleted meanwhile
	case isDamaged(err):
		return l.broken("snapshot", name, err)
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
	return l.stored(listJSON{
		Kind: "snapshot", Name: name, Pages: int64(index.PageCount), Newest: &newestJSON{index.Entities, bytes, index.CreatedAt},
	})
}
