package main

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/credential"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/internal/task"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/sinks"
)

func newStatus(a *app.App) *cobra.Command {
	var into credential.Source
	c := &cobra.Command{
		Use:   "status SINK...",
		Short: "Show the positions of the consumers of sinks",
		Long: `Status prints a line for each consumer of the given sinks, which are named as for "feedctl
consume --into": the feed that it reads, its position there, when it last committed, and its
lag behind the newest entity. A database is shown with all its tables unless the sink names
one. With --json, each line is an object.

Nothing is created, and consumers may be running. The feed is asked for its newest entity
without credentials; if it does not answer, or the consumer is still reading a snapshot
or older entities (--newest-first), the lag is unknown.` + exit.Help(exit.NotFound, exit.Interrupted),
		Example: `  feedctl status jsonl:zones.jsonl sqlite:zones.db
  feedctl status 'postgres://shop@db.example.org/shop?table=public.products' --json`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return runStatus(c.Context(), a, into, args)
		},
	}
	task.IntoFlags(c.Flags(), &into)
	return c
}

func runStatus(ctx context.Context, a *app.App, into credential.Source, specs []string) error {
	var rows [][]string
	var failures []error
	for _, spec := range specs {
		standings, err := standings(ctx, a, spec, into)
		if err != nil {
			failures = append(failures, err)
		}
		for _, s := range standings {
			one := standing(ctx, a, sink.Redact(spec), s)
			if a.JSON {
				if err := a.Print(one, nil); err != nil {
					return err
				}
			}
			rows = append(rows, one.row())
		}
	}
	if !a.JSON && len(rows) > 0 {
		failures = append(failures, human.WriteTable(a.Out, []string{"SINK", "NAME", "POSITION", "COMMITTED", "LAG", "FEED"}, rows))
	}
	return errors.Join(failures...)
}

// standings reads the positions of the consumers of a sink.
func standings(ctx context.Context, a *app.App, spec string, into credential.Source) ([]sink.Standing, error) {
	o, err := a.SinkOptions(spec, into)
	if err != nil {
		return nil, err
	}
	found, err := sinks.Standings(ctx, spec, o)
	if errors.Is(err, sink.ErrSpec) {
		err = exit.Usagef("%w", err)
	}
	return found, err
}

// newestTime is how long a feed may take to return its newest entity.
const newestTime = 10 * time.Second

func standing(ctx context.Context, a *app.App, into string, s sink.Standing) statusJSON {
	one := statusJSON{Sink: into, Name: s.Name, Position: s.Position}
	if s.Position.Feed == "" || s.Position.Snapshot != nil || s.Position.Tail != nil {
		return one
	}
	newest, err := newest(ctx, a, s.Position.Feed)
	if err != nil {
		a.Log.WarnContext(ctx, "newest entity of the feed is unknown", "feed", s.Position.Feed, "error", err)
		return one
	}
	lag := max(0, newest.Sub(s.Position.LastModified).Seconds())
	one.LagSeconds = &lag
	return one
}

// newest returns the time of the newest entity of a feed. The URL of the feed comes from a sink, so
// no credentials are sent to it.
func newest(ctx context.Context, a *app.App, feed string) (newest time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, newestTime)
	defer cancel()
	at, err := new(task.Client).Locate(ctx, &a.Env, feed, layout.FeedPath, task.Access{})
	if err != nil {
		return newest, err
	}
	at.Config.Retry.Attempts = 1
	client, err := consumer.New(at.Config)
	if err != nil {
		return newest, err
	}
	return client.Newest(ctx, at.URL)
}

func (s *statusJSON) row() []string {
	lag, place := "-", formatPosition(s.Position)
	if s.LagSeconds != nil {
		lag = human.Duration(time.Duration(*s.LagSeconds * float64(time.Second)))
	}
	return []string{s.Sink, cmp.Or(s.Name, "-"), place, human.Time(s.Position.Committed), lag, human.Printable(cmp.Or(s.Position.Feed, "-"))}
}

func formatPosition(p feed.Position) string {
	if p.Snapshot != nil {
		return "in a snapshot, page " + human.Count(int64(p.Snapshot.Page))
	}
	at := human.Time(p.LastModified)
	switch {
	case p.Tail == nil:
		return at
	case p.Tail.ContentID == "":
		return at + ", back to a snapshot, page " + human.Count(int64(p.Tail.Snapshot.Page))
	}
	return at + ", back to " + human.Time(p.Tail.LastModified)
}
