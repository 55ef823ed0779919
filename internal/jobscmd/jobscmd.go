// Package jobscmd implements the commands of "feedctl jobs", on top of a [jobs.Scheduler].
package jobscmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/cli"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/jobs"
	"github.com/feedctl/feedctl/sink"
)

// commands holds the settings and resources that the commands share.
type commands struct {
	*app.App
	kinds jobs.Kinds
	db    string // URL
}

// New returns the command "jobs" with all its subcommands.
func New(a *app.App, kinds jobs.Kinds) *cobra.Command {
	c := &commands{App: a, kinds: kinds}
	group := &cobra.Command{
		Use:   "jobs",
		Short: "Run many bridges, consumers and outbox runners on a few nodes",
		Long: `Jobs are bridges, consumers, outbox runners and other commands that a scheduler runs:
thousands of them in one process, or on several nodes that take over from each other.
"jobs apply" stores what files of jobs say in the database of --db, and "jobs worker" runs
it. "jobs standalone" does both in one process.

A job is NAMESPACE/NAME, or NAME in the namespace "default" or that of --namespace.
docs/jobs.md describes jobs and their files.` + exit.Help(exit.NotFound, exit.Interrupted),
		Example: `  feedctl jobs standalone -f jobs.yaml
  feedctl jobs apply -f jobs/ --db postgres://db.example.org/jobs
  feedctl jobs list --state crashing`,
		Args: cobra.NoArgs,
		RunE: app.NeedCommand,
	}
	group.PersistentFlags().StringVar(&c.db, "db", "sqlite:feedctl-jobs.db", "`URL` of the database of jobs: sqlite:FILE for one node, or postgres://USER@HOST/DATABASE?schema=feedctl_jobs")
	group.AddCommand(
		newApply(c),
		newValidate(c),
		newPause(c),
		newResume(c),
		newRestart(c),
		newCancel(c),
		newDelete(c),
		newList(c),
		newDescribe(c),
		newExport(c),
		newHistory(c),
		newPosition(c),
		newNodes(c),
		newOrigins(c),
		newTenants(c),
		newSettings(c),
		newLogs(c),
		newRun(c),
		newWorker(c),
		newStandalone(c),
	)
	c.completeFlags(group)
	return group
}

// inMemory is the URL of a database in memory, which is forgotten when the command ends.
const inMemory = "sqlite::memory:"

// view opens the database of jobs for a command that changes nothing.
func (c *commands) view(ctx context.Context) (*jobs.Scheduler, error) {
	return c.use(ctx, jobs.OpenReadOnly)
}

// viewAny does the same as view, but opens an empty database if there is none.
func (c *commands) viewAny(ctx context.Context) (*jobs.Scheduler, error) {
	s, err := c.view(ctx)
	if errors.Is(err, jobs.ErrNone) || c.db == inMemory {
		empty := *c
		empty.db = inMemory
		return empty.create(ctx)
	}
	return s, err
}

// open opens the database of jobs, which must exist, for a command that changes it.
func (c *commands) open(ctx context.Context) (*jobs.Scheduler, error) {
	return c.use(ctx, jobs.OpenExisting)
}

// create opens the database of jobs for a command that creates jobs or nodes. It creates the database if it does
// not exist, and migrates it if an older version made it.
func (c *commands) create(ctx context.Context) (*jobs.Scheduler, error) {
	return c.use(ctx, jobs.Open)
}

// use opens the database until the end of the command.
func (c *commands) use(ctx context.Context, open func(context.Context, string, jobs.Kinds, jobs.Settings) (*jobs.Scheduler, error)) (*jobs.Scheduler, error) {
	s, err := open(ctx, c.db, c.kinds, jobs.Defaults())
	switch {
	case errors.Is(err, jobs.ErrNone) && c.db == inMemory:
		err = exit.Usagef("open database of jobs: only the process that runs the jobs can read %s", inMemory)
		err = exit.WithHint(err, "--db sqlite:FILE here and for the process that runs the jobs, or --listen there and its API")
	case errors.Is(err, jobs.ErrNone):
		err = exit.WithHint(err, `"feedctl jobs apply -f FILE", which creates it, or the database's URL: --db or the variable FEEDCTL_DB`)
	case errors.Is(err, jobs.ErrOld):
		err = exit.WithHint(err, `"feedctl jobs worker" or "feedctl jobs apply" of this version, which migrate them`)
	case errors.Is(err, jobs.ErrVersion):
		err = exit.WithHint(err, "a newer feedctl: this is "+cmp.Or(cli.ThisVersion().Version, "an unknown version"))
	}
	if err != nil {
		return nil, err
	}
	c.AtEnd(s.Close, "database "+sink.Redact(c.db))
	return s, nil
}

// id returns the ID of the job that an argument names.
func id(arg, namespace string) string {
	if strings.Contains(arg, "/") {
		return arg
	}
	return cmp.Or(namespace, "default") + "/" + arg
}

// explain adds exit statuses and hints to errors of package jobs.
func explain(err error) error {
	switch {
	case errors.Is(err, jobs.ErrInvalid), errors.Is(err, jobs.ErrURL):
		return exit.Errorf(exit.Usage, "%w", err)
	case errors.Is(err, jobs.ErrNoJob), errors.Is(err, jobs.ErrNone):
		return exit.Errorf(exit.NotFound, "%w", err)
	case errors.Is(err, jobs.ErrNamesake):
		return exit.WithHint(err, "--name NAME, with a name that no other node has")
	case errors.Is(err, jobs.ErrTaken):
		return exit.WithHint(err, `"feedctl jobs delete NAME" for the job that should not run`)
	case errors.Is(err, jobs.ErrFollows):
		return exit.WithHint(exit.Errorf(exit.Usage, "%w", err), `"feedctl jobs pause", or "feedctl jobs delete"`)
	}
	return err
}

// lines writes strings, one on each line.
func lines(w io.Writer, texts ...string) error {
	_, err := fmt.Fprintln(w, strings.Join(texts, "\n"))
	return err
}
