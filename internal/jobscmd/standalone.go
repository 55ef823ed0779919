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
		Long: `Standalone applies files of jobs, as "jobs apply --prune-all --yes" does, and runs the jobs
until a signal ends it: there is nothing to manage but the files. It deletes all jobs of the
database that are not in them. Jobs that use local files need no "node", since there is only
one.

The database of --db is a file in which jobs keep their states, counters and errors. Their
positions are in the feeds and sinks: if the file is lost, nothing else is. Other commands
can use the file meanwhile. With --db sqlite::memory: there is no file.` + exit.Help(exit.NotFound, exit.Interrupted),
		Example: `  feedctl jobs standalone -f jobs.yaml
  feedctl jobs standalone -f /etc/feedctl/jobs --db sqlite:/var/lib/feedctl/jobs.db
  feedctl jobs standalone -f jobs.yaml --console 127.0.0.1:9090`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.maxJobs == 0 && cmd.Flags().Changed("max-jobs") {
				return exit.Usagef("--max-jobs 0 is for \"feedctl jobs worker\": standalone runs jobs")
			}
			return explain(runStandalone(cmd.Context(), c, &f))
		},
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
	c.Follower = true // from now on, even while the command reads and applies its files
	options := jobs.ApplyOptions{PruneAll: true, Node: config.Name}
	files, store, err := c.read(ctx, jobs.ReadOptions{Stdin: c.In, Node: config.Name}, f.files, c.create, &options)
	if err != nil {
		return c.invalid(false, err)
	}
	if err := c.apply(ctx, store, files, options); err != nil {
		return err
	}
	return c.work(ctx, store, config, &f.workerFlags)
}
