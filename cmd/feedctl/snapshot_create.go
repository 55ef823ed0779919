package main

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/internal/progress"
	"github.com/feedctl/feedctl/internal/task"
	"github.com/feedctl/feedctl/snapshot/snapshots"
)

type snapshotCreateFlags struct {
	input  inputFlags
	public task.Public
}

func newSnapshotCreate(a *app.App) *cobra.Command {
	var f snapshotCreateFlags
	c := &cobra.Command{
		Use:   "create NAME|STORE#NAME [FILE|-]",
		Short: "Make a snapshot of entities from a file",
		Long: `Create makes a new snapshot NAME in the store from the entities in FILE or, without FILE,
on standard input. The input formats are those of "feedctl publish". The snapshot becomes
visible when the command succeeds. "feedctl snapshot collect" removes the remains of an
interrupted command.` + publicHelp + exit.Help(exit.NotFound, exit.Interrupted),
		Example: `  feedctl snapshot create zones data/zones.ndjson --key /id
  feedctl snapshot create pictures ./pictures --format dir
  feedctl snapshot create s3://bucket/data#zones zones.ndjson --public-url https://cdn.example.org/data
  feedctl snapshot create s3://bucket/data#zones data/zones.ndjson --key /id --presign 24h`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			return runSnapshotCreate(c.Context(), a, &f, args[0], fileOf(args))
		},
	}
	f.input.add(c.Flags())
	f.public.Flags(c.Flags())
	excludePublic(c)
	return c
}

func runSnapshotCreate(ctx context.Context, a *app.App, f *snapshotCreateFlags, arg, file string) error {
	at, err := a.Parse(arg)
	if err != nil {
		return err
	}
	if err := f.input.check(); err != nil {
		return err
	}
	if err := f.public.Check(); err != nil {
		return err
	}
	src, err := f.input.open(ctx, a, file)
	if err != nil {
		return err
	}
	store, err := a.OpenStore(ctx, at.Store, task.Access{Create: true})
	if err != nil {
		return err
	}
	if err := f.public.CheckStore(ctx, store, at.Name); err != nil {
		return err
	}
	var c counter
	a.Progress("snapshot", func() progress.Status { return c.status(src.Size) })
	index, err := snapshots.Write(ctx, store, at.Name, c.count(src.Name, src.Entities), f.public.Config)
	if err != nil {
		return err
	}
	made, err := f.public.Made(ctx, store, at.Name, index)
	if err != nil {
		return err
	}
	return printSnapshot(a, made)
}

// printSnapshot prints a new snapshot.
func printSnapshot(a *app.App, made *task.Snapshot) error {
	url := ""
	if made.URL != "" {
		url = made.URL + "\n"
	}
	return a.Printf(made, "made snapshot %s/%s of %s on %s\n%s", made.Name, made.ID,
		human.Plural(*made.Entities, "entity", "entities"), human.Plural(int64(made.Pages), "page", "pages"), url)
}

// A counter counts entities that pass through.
type counter struct{ entities, bytes atomic.Int64 }

// count yields the entities of an input, whose name it adds to errors.
func (c *counter) count(name string, entities iter.Seq2[*feed.Entity, error]) iter.Seq2[*feed.Entity, error] {
	return func(yield func(*feed.Entity, error) bool) {
		for e, err := range entities {
			if err != nil {
				err = fmt.Errorf("%s: %w", strings.TrimSuffix(name, "/"), err)
			} else {
				c.entities.Add(1)
				c.bytes.Add(int64(len(e.Body)))
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

func (c *counter) status(total int64) progress.Status {
	return progress.Status{Entities: c.entities.Load(), Bytes: c.bytes.Load(), Total: total, Lag: -1}
}
