package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/internal/locate"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/storage"
)

type inspectFlags struct {
	client clientFlags
	index  bool
}

func newInspect(a *app) *cobra.Command {
	var f inspectFlags
	c := &cobra.Command{
		Use:   "inspect URL|FEED|STORE#FEED",
		Short: "Show the pages of a feed: counts, sizes, times and links",
		Long: `Inspect prints a line for each page of the feed at URL, or of FEED in the store, oldest
first, and the totals. A feed at a URL is read completely, and the sizes are those of the
entities' BODIES. Of a feed in the store only the metadata is read, and the sizes are those
of the pages in BYTES. With --index the argument is the URL of a snapshot's index, or the
name of a snapshot in the store, and the index is shown.

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
	f.client.add(c.Flags())
	return c
}

func runInspect(ctx context.Context, a *app, f *inspectFlags, arg string) (err error) {
	path := layout.FeedPath
	if f.index {
		path = layout.SnapshotPath
	}
	at, err := a.locate(ctx, &f.client, arg, path, access{})
	if err != nil {
		return err
	}
	at.Config.IdleBytes = 1 << 10 // a byte now and then is not waited for: nothing can be lost
	switch {
	case f.index:
		return a.inspectSnapshot(ctx, at)
	case at.Store != nil:
		return suggestSimilar(ctx, at, a.inspectPages(at, func(show func(pageJSON) error) error { return storedPages(ctx, at.Store, at.Name, show) }))
	default:
		return suggestSimilar(ctx, at, a.inspectPages(at, func(show func(pageJSON) error) error { return servedPages(ctx, at, show) }))
	}
}

// inspectPages prints what each shows it, page by page: a feed may have more
// pages than fit into memory.
func (a *app) inspectPages(at *locate.Location, each func(show func(pageJSON) error) error) error {
	total, size := feedJSON{Feed: at.Name}, "BYTES"
	if at.Store == nil {
		total.Feed, size = at.URL, "BODIES"
	}
	err := each(func(p pageJSON) error {
		total.add(p)
		return a.print(struct {
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
	})
	if err != nil {
		return err
	}
	return a.print(struct {
		Feed feedJSON `json:"feed"`
	}{total}, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "%s, %s, %s\n", human.Plural(total.Pages, "page", "pages"),
			human.Plural(total.Entities, "entity", "entities"), human.Bytes(total.Bytes))
		return err
	})
}

const pageRow = "%10s  %10s  %-20s  %-20s  %-9s  %s\n"

// storedPages shows the pages of a feed in the store.
func storedPages(ctx context.Context, store storage.Store, name string, show func(pageJSON) error) error {
	reader := chain.NewReader(store, name)
	newest, err := reader.Newest(ctx)
	if err != nil {
		return err
	}
	oldest, err := reader.Floor(ctx)
	if err != nil {
		return err
	}
	for n := oldest; n <= newest.Number; n++ {
		p, err := reader.Stat(ctx, n)
		if errors.Is(err, chain.ErrPruned) {
			continue // by now
		}
		if err != nil {
			return err
		}
		row := pageJSON{
			URL:      layout.FeedPagePath(name, n),
			Entities: int64(p.Entities),
			Bytes:    p.Size,
			First:    p.First.UTC(),
			Last:     p.Last.UTC(),
		}
		if n > oldest {
			row.Prev = layout.FeedPagePath(name, n-1)
		}
		if n < newest.Number {
			row.Next = layout.FeedPagePath(name, n+1)
		}
		if err := show(row); err != nil {
			return err
		}
	}
	return nil
}

// servedPages shows the pages of a feed on a server.
func servedPages(ctx context.Context, at *locate.Location, show func(pageJSON) error) error {
	client, err := consumer.New(at.Config)
	if err != nil {
		return err
	}
	for p, err := range client.Pages(ctx, at.URL, consumer.Beginning()) {
		if err != nil {
			return err
		}
		row := pageJSON{URL: p.URL, Prev: p.Links.Prev, Next: p.Links.Next}
		for e, err := range p.Entities() {
			if err != nil {
				return err
			}
			if row.Entities++; row.Entities == 1 {
				row.First = e.LastModified
			}
			row.Last = e.LastModified
			size, err := bodySize(&e.Entity)
			if err != nil {
				return err
			}
			row.Bytes += size
		}
		if err := show(row); err != nil {
			return err
		}
	}
	return nil
}

// bodySize returns the size of an entity's body; it reads a stream to its end.
func bodySize(e *feed.Entity) (int64, error) {
	if e.Stream == nil {
		return int64(len(e.Body)), nil
	}
	return io.Copy(io.Discard, e.Stream)
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

func (a *app) inspectSnapshot(ctx context.Context, at *locate.Location) error {
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
	result := snapshotResult(name, index, len(index.Pages))
	return a.print(struct {
		Snapshot snapshotJSON `json:"snapshot"`
	}{result}, func(w io.Writer) error {
		rows := [][2]string{
			{"id", index.ID},
			{"created", human.Time(index.CreatedAt)},
			{"pages", human.Count(int64(len(index.Pages)))},
			{"entities", result.formatEntities()},
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
