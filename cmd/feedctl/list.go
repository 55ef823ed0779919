package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feedstore"
	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/directory"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/internal/locate"
	"github.com/feedctl/feedctl/internal/task"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/sink"
)

type listFlags struct {
	limit  int
	after  string
	client task.Client
}

func newList(a *app.App) *cobra.Command {
	var f listFlags
	c := &cobra.Command{
		Use:   "list [STORE|URL]",
		Short: "List the feeds and snapshots in a store or on a server",
		Long: `List prints a line for each feed and each snapshot name in the store, by default that of
--store, as it finds them: feeds first, both in the order of their names. For a feed, it
prints the number of pages, the entities and bytes of the newest page, and the age of the
newest entity; for a snapshot name, the pages, entities, bytes and age of the newest.
For a damaged one, the line has the error instead, and the exit status is 5.

It takes a few requests for each line, however large a feed is, and prints it at once. With
--limit and --after it pages through a large store. With --json, each line is an object.

With the URL of a server, it prints the names and URLs that the server lists, with one
request for every 1,000. --credentials-file and the flags after it are for servers.` + exit.Help(exit.NotFound, exit.Invalid, exit.Interrupted),
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
			return runList(c.Context(), a, storeOf(a, args), &f)
		},
	}
	c.Flags().IntVar(&f.limit, "limit", 0, "end after this `NUMBER` of lines (default: no limit)")
	c.Flags().StringVar(&f.after, "after", "", "begin after this `NAME`, of feeds and of snapshots")
	f.client.RequestFlags(c.Flags())
	return c
}

// check checks the flags.
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

func runList(ctx context.Context, a *app.App, rawURL string, f *listFlags) error {
	store, err := a.OpenStore(ctx, rawURL, task.Access{})
	if err != nil {
		return err
	}
	reader := feedstore.NewLocal(store, a.Log)
	defer reader.Close(ctx)
	damaged, now := int64(0), time.Now()
	l := &lister{app: a, left: cmp.Or(f.limit, -1), titles: fmt.Sprintf(listFormat, "KIND", "NAME", "PAGES", "NEWEST ENTITIES", "NEWEST BYTES", "AGE")}
	for e, err := range reader.List(ctx, f.after) {
		if err != nil {
			return err
		}
		line := listJSON{Kind: kindOf(e.Snapshot), Name: e.Name, Pages: e.Pages, Newest: &newestJSON{e.Entities, e.Bytes, e.Time}}
		text := fmt.Sprintf(listFormat, line.Kind, e.Name, human.Count(e.Pages), human.Count(e.Entities), human.Bytes(e.Bytes), human.Duration(now.Sub(e.Time)))
		if e.Err != nil {
			damaged++
			line.Newest, line.Error = nil, e.Err.Error()
			text = fmt.Sprintf(listedFormat, line.Kind, e.Name, human.Printable(line.Error))
		}
		if err := l.print(line, text); err != nil {
			return err
		}
		if l.left == 0 {
			break
		}
	}
	if damaged > 0 {
		return fmt.Errorf("list %s: %w: %s", sink.Redact(rawURL), errDamaged, human.Plural(damaged, "feed or snapshot", "feeds and snapshots"))
	}
	return nil
}

// listServer prints what a server lists.
func listServer(ctx context.Context, a *app.App, rawURL string, f *listFlags) error {
	base, err := locate.ParseURL(rawURL)
	if err != nil {
		return err
	}
	config, err := f.client.Config(&a.Env)
	if err != nil {
		return err
	}
	l := &lister{app: a, left: cmp.Or(f.limit, -1), titles: fmt.Sprintf(listedFormat, "KIND", "NAME", "URL")}
	for e, err := range directory.Entries(ctx, config, base, f.limit, f.after) {
		if err != nil {
			return fmt.Errorf("list %s: %w", sink.Redact(rawURL), err)
		}
		kind := kindOf(e.Snapshot)
		if err := l.print(listedJSON{kind, e.Name, e.URL}, fmt.Sprintf(listedFormat, kind, e.Name, human.Printable(e.URL))); err != nil || l.left == 0 {
			return err
		}
	}
	return nil
}

// errDamaged is wrapped by the error for a list with damaged feeds or snapshots, whose lines say
// what is wrong.
var errDamaged = fmt.Errorf("%w: see the lines with an error", chain.ErrCorrupt)

func kindOf(isSnapshot bool) string {
	if isSnapshot {
		return "snapshot"
	}
	return "feed"
}

// The columns have a fixed width, since no line waits for the next.
const (
	listFormat   = "%-8s  %-40s  %10s  %15s  %12s  %s\n"
	listedFormat = "%-8s  %-40s  %s\n"
)

// A lister prints line after line.
type lister struct {
	app    *app.App
	titles string // printed above the first line, then ""
	left   int    // lines to print; 0 after the last; negative: no limit
}

func (l *lister) print(line any, text string) error {
	text, l.titles = l.titles+text, ""
	l.left--
	return l.app.Print(line, func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	})
}
