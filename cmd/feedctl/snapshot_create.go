package main

import (
	"context"
	"fmt"
	"io"
	"iter"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/snapshot"
)

func newSnapshotCreate(a *app) *cobra.Command {
	var f inputFlags
	c := &cobra.Command{
		Use:   "create NAME [FILE|-]",
		Short: "Make a snapshot of entities from a file",
		Long: `Create makes a new snapshot NAME in the store of the entities in FILE or, without it, from
standard input. The forms of input are those of "feedctl publish". The snapshot exists when
the command has ended with success, and not before: what an interrupted one leaves behind
is removed by "feedctl snapshot collect".` + exitStatus(exitOK, exitError, exitUsage, exitNotFound, exitInterrupted),
		Example: `  feedctl snapshot create zones zones.ndjson --key /name
  feedctl snapshot create pictures ./pictures --format dir`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			file := "-"
			if len(args) == 2 {
				file = args[1]
			}
			return runSnapshotCreate(c.Context(), a, &f, args[0], file)
		},
	}
	f.add(c.Flags())
	return c
}

func runSnapshotCreate(ctx context.Context, a *app, f *inputFlags, name, file string) (err error) {
	if err := layout.CheckName(name); err != nil {
		return err
	}
	if err := f.check(); err != nil {
		return err
	}
	src, err := f.open(ctx, a.in, file)
	if err != nil {
		return err
	}
	defer closing(&err, src.close, src.name)
	store, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer closing(&err, store.Close, "store")
	var c counter
	stop := a.progress("snapshot", func() status { return c.status(src.size) })
	defer stop()
	index, err := producer.WriteSnapshot(ctx, store, name, c.count(src.entities), producer.SnapshotConfig{})
	stop()
	if err != nil {
		return err
	}
	return a.printSnapshot(name, index)
}

func (a *app) printSnapshot(name string, index *snapshot.Index) error {
	return a.print(snapshotResult(name, index), func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "made snapshot %s/%s of %s on %s\n", name, index.ID,
			plural(index.Entities, "entity", "entities"), plural(int64(len(index.Pages)), "page", "pages"))
		return err
	})
}

// A counter counts entities that pass through.
type counter struct{ entities, bytes atomic.Int64 }

func (c *counter) count(entities iter.Seq2[*feed.Entity, error]) iter.Seq2[*feed.Entity, error] {
	return func(yield func(*feed.Entity, error) bool) {
		for e, err := range entities {
			if err == nil {
				c.entities.Add(1)
				c.bytes.Add(int64(len(e.Body)))
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

func (c *counter) status(total int64) status {
	return status{Entities: c.entities.Load(), Bytes: c.bytes.Load(), Total: total, Lag: -1}
}
