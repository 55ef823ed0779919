package jobscmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/jobs"
)

type standaloneFlags struct {
	workerFlags
	files []string
}

func newStandalone(c *commands) *cobra.Command {
	var f standaloneFlags
	cmd := &cobra.Command{
		Use:   "standalone -f PATH…",
		Short: "Run the jobs of files in one process",
		Long: `Standalone applies files of jobs, as "jobs apply --prune --yes" does, and runs the jobs
until a signal ends it: there is nothing to manage but the files. Jobs that use local files
need no "node", since there is only one.

The database of --db is a file in which jobs keep their states, counters and errors. Their
positions are in the feeds and sinks: if the file is lost, nothing else is. Other commands
can use the file meanwhile. With --db sqlite::memory: there is no file.` + exit.Help(exit.NotFound, exit.Interrupted),
		Example: `  feedctl jobs standalone -f jobs.yaml
  feedctl jobs standalone -f /etc/feedctl/jobs --db sqlite:/var/lib/feedctl/jobs.db`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return explain(runStandalone(cmd.Context(), c, &f)) },
	}
	addFiles(cmd, &f.files)
	f.flags(cmd)
	return cmd
}

func runStandalone(ctx context.Context, c *commands, f *standaloneFlags) error {
	config, err := f.config(c)
	if err != nil {
		return err
	}
	if err := f.listen.check(); err != nil {
		return err
	}
	files, err := c.kinds.Read(jobs.ReadOptions{Stdin: c.In, Node: config.Name}, f.files...)
	if err != nil {
		return err
	}
	store, err := c.create(ctx)
	if err != nil {
		return err
	}
	changes, err := store.Apply(ctx, files.Documents, jobs.ApplyOptions{Prune: true, Node: config.Name})
	if err != nil {
		return files.Locate(err)
	}
	result := newApplied(changes, false)
	if err := c.Print(result, result.write); err != nil {
		return err
	}
	return c.work(ctx, store, config, &f.workerFlags)
}
