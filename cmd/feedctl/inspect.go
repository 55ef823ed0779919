package main

import (
	"context"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feedstore"
	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/internal/locate"
	"github.com/feedctl/feedctl/internal/task"
	"github.com/feedctl/feedctl/layout"
)

type inspectFlags struct {
	client task.Client
	index  bool
}

func newInspect(a *app.App) *cobra.Command {
	var f inspectFlags
	c := &cobra.Command{
		Use:   "inspect URL|FEED|STORE#FEED",
		Short: "Show the pages of a feed: counts, sizes, times and links",
		Long: `Inspect prints a line for each page of the feed at URL, or of FEED in the store, oldest
first, and the totals. A feed at a URL is read completely, and the sizes are those of the
entities' BODIES. For a feed in the store, only the metadata is read, and the sizes are
those of the pages in BYTES. With --index the argument is the URL of a snapshot's index, or
the name of a snapshot in the store, and the index is shown.

With --json it prints a line {"page":{...}} for each page and a line {"feed":{...}}, or one
line {"snapshot":{...}}. The member "bytes" is the size shown in the table.` + exit.Help(exit.NotFound, exit.Invalid, exit.Interrupted),
		Example: `  feedctl inspect zones
  feedctl inspect https://data.example.org/feeds/zones --json
  feedctl inspect 's3://bucket/prefix?region=eu-central-1#zones'
  feedctl inspect --index https://data.example.org/snapshots/zones`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return runInspect(c.Context(), a, &f, args[0])
		},
	}
	c.Flags().BoolVar(&f.index, "index", false, "show a snapshot's index instead of a feed")
	f.client.Flags(c.Flags())
	return c
}

func runInspect(ctx context.Context, a *app.App, f *inspectFlags, arg string) error {
	path := layout.FeedPath
	if f.index {
		path = layout.SnapshotPath
	}
	at, err := f.client.Locate(ctx, &a.Env, arg, path, task.Access{})
	if err != nil {
		return err
	}
	at.Config.IdleBytes = 1 << 10 // do not wait for a trickle of bytes: nothing can be lost
	switch {
	case f.index:
		return inspectSnapshot(ctx, a, at)
	case at.Store != nil:
		return task.Suggest(ctx, at, inspectPages(a, at.Name, "BYTES", storedPages(ctx, a, at)))
	default:
		return task.Suggest(ctx, at, inspectPages(a, at.URL, "BODIES", servedPages(ctx, at)))
	}
}

// inspectPages prints pages one by one: a feed may have more than fit into memory.
func inspectPages(a *app.App, name, size string, pages iter.Seq2[pageJSON, error]) error {
	total := feedJSON{Feed: name}
	for p, err := range pages {
		if err != nil {
			return err
		}
		total.add(p)
		err := a.Print(struct {
			Page pageJSON `json:"page"`
		}{p}, func(w io.Writer) error {
			if total.Pages == 1 {
				if _, err := fmt.Fprintf(w, pageRow, "ENTITIES", size, "FIRST", "LAST", "LINKS", "PAGE"); err != nil {
					return err
				}
			}
			_, err := fmt.Fprintf(w, pageRow, human.Count(p.Entities), human.Bytes(p.Bytes),
				human.Time(p.First), human.Time(p.Last), p.links(), human.Printable(p.URL))
			return err
		})
		if err != nil {
			return err
		}
	}
	return a.Print(struct {
		Feed feedJSON `json:"feed"`
	}{total}, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "%s, %s, %s\n", human.Plural(total.Pages, "page", "pages"),
			human.Plural(total.Entities, "entity", "entities"), human.Bytes(total.Bytes))
		return err
	})
}

const pageRow = "%10s  %10s  %-20s  %-20s  %-9s  %s\n"

// storedPages yields the pages of a feed in the store.
func storedPages(ctx context.Context, a *app.App, at *locate.Location) iter.Seq2[pageJSON, error] {
	return func(yield func(pageJSON, error) bool) {
		reader := feedstore.NewLocal(at.Store, a.Log)
		defer reader.Close(ctx)
		f, newest, floor, err := reader.Look(ctx, at.Name)
		if err != nil {
			yield(pageJSON{}, err)
			return
		}
		for p, err := range f.Pages(ctx, floor, newest) {
			if err != nil {
				yield(pageJSON{}, err)
				return
			}
			row := pageJSON{URL: layout.FeedPagePath(at.Name, p.Number), Entities: int64(p.Entities), Bytes: p.Size, First: p.First, Last: p.Last}
			if p.Number > floor {
				row.Prev = layout.FeedPagePath(at.Name, p.Number-1)
			}
			if p.Number < newest.Number {
				row.Next = layout.FeedPagePath(at.Name, p.Number+1)
			}
			if !yield(row, nil) {
				return
			}
		}
	}
}

// servedPages yields the pages of a feed on a server.
func servedPages(ctx context.Context, at *locate.Location) iter.Seq2[pageJSON, error] {
	return func(yield func(pageJSON, error) bool) {
		client, err := consumer.New(at.Config)
		if err != nil {
			yield(pageJSON{}, err)
			return
		}
		for p, err := range client.Pages(ctx, at.URL, consumer.Beginning()) {
			var sum consumer.Summary
			if err == nil {
				sum, err = p.Summarize()
			}
			if err != nil {
				yield(pageJSON{}, err)
				return
			}
			if !yield(pageJSON{p.URL, sum.Entities, sum.Bytes, sum.First, sum.Last, p.Links.Prev, p.Links.Next}, nil) {
				return
			}
		}
	}
}

func (p pageJSON) links() string {
	var links []string
	if p.Prev != "" {
		links = append(links, "prev")
	}
	if p.Next != "" {
		links = append(links, "next")
	}
	return strings.Join(links, " ")
}

func (f *feedJSON) add(p pageJSON) {
	if f.Pages++; f.Pages == 1 {
		f.First = p.First
	}
	f.Last = p.Last
	f.Entities += p.Entities
	f.Bytes += p.Bytes
}

func inspectSnapshot(ctx context.Context, a *app.App, at *locate.Location) error {
	client, err := consumer.New(at.Config)
	if err != nil {
		return err
	}
	index, err := client.Index(ctx, at.URL)
	if err != nil {
		return err
	}
	name := at.Name
	if at.Store == nil {
		name = at.URL
	} else if f := index.Feed; f != nil { // what is shown is the same wherever the store is
		f.URL, f.Page = strings.TrimPrefix(f.URL, at.Base()), strings.TrimPrefix(f.Page, at.Base())
	}
	result := task.SnapshotOf(name, index, len(index.Pages))
	return a.Print(struct {
		Snapshot task.Snapshot `json:"snapshot"`
	}{result}, func(w io.Writer) error {
		rows := [][2]string{
			{"id", index.ID},
			{"created", human.Time(index.CreatedAt)},
			{"pages", human.Count(int64(len(index.Pages)))},
			{"entities", formatEntities(result.Entities)},
		}
		if index.Feed != nil {
			rows = append(rows, [2]string{"feed", index.Feed.URL}, [2]string{"page", index.Feed.Page},
				[2]string{"position", human.Time(index.Feed.LastModified) + " " + index.Feed.ContentID})
		}
		for _, row := range rows {
			if _, err := fmt.Fprintf(w, "%-9s %s\n", row[0], human.Printable(row[1])); err != nil {
				return err
			}
		}
		return nil
	})
}
