package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/internal/task"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/sink/jsonl"
)

type tailFlags struct {
	client task.Client
	follow bool
	from   string
	limit  int64
}

func newTail(a *app.App) *cobra.Command {
	var f tailFlags
	c := &cobra.Command{
		Use:   "tail URL|FEED|STORE#FEED",
		Short: "Print the entities of a feed as they arrive",
		Long: `Tail prints the entities of the feed at URL, or of FEED in a store, as they are published:
one line each with Last-Modified, operation, key, Content-ID, media type, size, and the
start of the body. With --json it prints the lines that "feedctl consume --into -" writes.` +
			exit.Help(exit.NotFound, exit.Invalid, exit.Interrupted),
		Example: `  feedctl tail https://data.example.org/feeds/events
  feedctl tail zones --from beginning --follow=false
  feedctl tail s3://bucket/prefix#zones --from beginning
  feedctl tail zones --from 2026-01-01T00:00:00Z --limit 10 --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return runTail(c.Context(), a, &f, args[0])
		},
	}
	flags := c.Flags()
	flags.BoolVar(&f.follow, "follow", true, "wait for more at the end of the feed")
	flags.StringVar(&f.from, "from", "latest", "`WHERE` to begin: beginning, latest or TIME")
	flags.Int64Var(&f.limit, "limit", 0, "end after this `NUMBER` of entities (default: no limit)")
	f.client.Flags(flags)
	return c
}

func runTail(ctx context.Context, a *app.App, f *tailFlags, arg string) error {
	if strings.HasPrefix(f.from, "snapshot") {
		return exit.Usagef("--from %q: tail reads feeds only", f.from)
	}
	at, err := f.client.Locate(ctx, &a.Env, arg, layout.FeedPath, task.Access{Follow: f.follow})
	if err != nil {
		return err
	}
	from, _, err := at.Start(f.from)
	if err != nil {
		return err
	}
	at.Config.Follow, a.Follower = f.follow, f.follow
	a.TellMissing(at)
	client, err := consumer.New(at.Config)
	if err != nil {
		return err
	}
	write := entityWriter(a)
	n := int64(0)
	for e, err := range client.Entities(ctx, at.URL, from) {
		if err != nil {
			return task.Suggest(ctx, at, err)
		}
		if err := write(ctx, &e.Entity); err != nil {
			return fmt.Errorf("print entity %s: %w", e.ContentID, err)
		}
		if n++; n == f.limit {
			break
		}
	}
	return nil
}

// entityWriter returns a function that prints an entity as a line.
func entityWriter(a *app.App) func(context.Context, *feed.Entity) error {
	if !a.JSON {
		return func(_ context.Context, e *feed.Entity) error { return writeEntity(a.Out, e) }
	}
	lines := jsonl.NewWriter(a.Output)
	return func(ctx context.Context, e *feed.Entity) error {
		batch, err := lines.Begin(ctx)
		if err != nil {
			return err
		}
		if err := batch.Apply(ctx, e); err != nil {
			return errors.Join(err, batch.Rollback(ctx))
		}
		return batch.Commit(ctx, feed.Position{})
	}
}

// previewBytes is how much of a body is printed.
const previewBytes = 72

// writeEntity prints an entity as a line of text.
func writeEntity(w io.Writer, e *feed.Entity) error {
	start, size := e.Body, human.Bytes(int64(len(e.Body)))
	if e.Stream != nil {
		var err error
		if start, err = io.ReadAll(io.LimitReader(e.Stream, previewBytes+1)); err != nil {
			return err
		}
		size = "large"
		if e.Size >= 0 {
			size = human.Bytes(e.Size)
		}
	}
	_, err := fmt.Fprintf(w, "%s  %-6s  %s  %s  %s  %s  %s\n", human.Time(e.LastModified), e.Operation,
		human.Printable(e.Key()), human.Printable(e.ContentID), human.Printable(e.ContentType), size, human.Preview(start, previewBytes))
	return err
}
