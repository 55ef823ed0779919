package jobscmd

import (
	"cmp"
	"context"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/feedctl/feedctl/internal/cli"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/metrics"
	"github.com/feedctl/feedctl/jobs"
	"github.com/feedctl/feedctl/jobs/watch"
	"github.com/feedctl/feedctl/sink"
)

// workerFlags holds the flags of a node.
type workerFlags struct {
	name    string
	maxJobs int
	serves  bool // whether it only serves the API or the console
	labels  []string
	listen  listenFlags
}

func (f *workerFlags) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.name, "name", "", "unique `NAME` of the node (default: the name of the host)")
	flags.IntVar(&f.maxJobs, "max-jobs", 0, "run at most this `NUMBER` of jobs at the same time (default: the setting max-jobs); 0, for a worker only: just serve the API or the console")
	flags.StringSliceVar(&f.labels, "labels", nil, "`LABELS` of the node, such as eu,ssd: it also runs jobs that require them")
	f.listen.flags(flags)
}

// config returns the configuration that the flags describe.
func (f *workerFlags) config(c *commands) (jobs.WorkerConfig, error) {
	if f.maxJobs < 0 || f.maxJobs > jobs.MaxSlots {
		return jobs.WorkerConfig{}, exit.Usagef("invalid --max-jobs %d: want 1 to %d, or 0 to only serve the API or the console", f.maxJobs, jobs.MaxSlots)
	}
	if problems := jobs.CheckNodeLabels(f.labels); len(problems) > 0 {
		return jobs.WorkerConfig{}, exit.Usagef("--labels: %s", strings.Join(problems, ", "))
	}
	name, err := f.node()
	if err != nil {
		return jobs.WorkerConfig{}, err
	}
	return jobs.WorkerConfig{Name: name, Slots: f.maxJobs, Labels: f.labels, Version: cli.ThisVersion().Version, Logger: c.Log}, nil
}

// node returns the name of the node.
func (f *workerFlags) node() (string, error) {
	host, err := os.Hostname()
	if f.name == "" && err != nil {
		return "", exit.Usagef("the host has no name: use --name NAME: %w", err)
	}
	host, _, _ = strings.Cut(host, ".")
	return cmp.Or(f.name, strings.ToLower(host)), nil
}

func newWorker(c *commands) *cobra.Command {
	var f workerFlags
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Run jobs on this machine",
		Long: `Worker is a node: it runs jobs that are due, at most --max-jobs at the same time, until a
signal ends it. On the first Ctrl-C or SIGTERM it stops its jobs at their next checkpoints,
and other nodes run them at once. If it is killed, they do so within 30 seconds.

Any number of workers can use a PostgreSQL database, but only one can use an SQLite file. A
worker with the name of another ends within seconds, unless the other was killed.

With --max-jobs 0 and --listen or --console, it only serves the API or the console: it is
not a node, runs no jobs and watches no servers.` + exit.Help(exit.Interrupted),
		Example: `  feedctl jobs worker --db postgres://db.example.org/jobs --name node-1
  feedctl jobs worker --max-jobs 100 --console 127.0.0.1:9090`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.serves = f.maxJobs == 0 && cmd.Flags().Changed("max-jobs")
			return explain(runWorker(cmd.Context(), c, &f))
		},
	}
	f.flags(cmd)
	return cmd
}

func runWorker(ctx context.Context, c *commands, f *workerFlags) error {
	config, err := f.config(c)
	if err != nil {
		return err
	}
	if err := f.listen.check(); err != nil {
		return err
	}
	if f.serves && f.listen.address == "" && f.listen.console.Address == "" {
		return exit.Usagef("--max-jobs 0: this worker would do nothing without --listen or --console")
	}
	c.Follower = true // from now on, even while the command opens its database
	store, err := c.create(ctx)
	if err != nil {
		return err
	}
	return c.work(ctx, store, config, f)
}

// work runs jobs, and serves the API, the console and metrics, until a signal ends the command.
func (c *commands) work(ctx context.Context, store *jobs.Scheduler, config jobs.WorkerConfig, f *workerFlags) error {
	config.Transport = c.Transport
	if f.serves {
		c.Log.Info("serving the API without a node", "database", sink.Redact(c.db))
	} else {
		c.Log.Info("starting the node", "node", config.Name, "database", sink.Redact(c.db))
	}
	config.Watcher = watch.NewManager(store, watch.Sources(watch.Hold(store.Held, config.Transport)), c.Log)
	observed := metrics.NewJobs(store, c.Connections)
	config.Observer = observed
	if err := f.listen.serveMetrics(c, store, observed); err != nil {
		return err
	}
	if err := f.listen.serveConsole(ctx, c, store, config.Name); err != nil {
		return err
	}
	g, both := errgroup.WithContext(ctx)
	if f.serves {
		g.Go(func() error { <-both.Done(); return nil }) // serving only the console would not wait for the signal
	} else {
		g.Go(func() error { return store.Work(both, config) })
	}
	g.Go(func() error { return f.listen.serve(both, c, store) })
	if err := g.Wait(); err != nil {
		return err
	}
	return context.Cause(ctx)
}
