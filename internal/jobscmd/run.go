package jobscmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/jobs"
)

// awaitEvery is the interval at which a command that waits for a job, or for log lines, reads the
// database.
const awaitEvery = 500 * time.Millisecond

type runFlags struct {
	namespace   string
	options     []string
	credentials []string
	node        string
	retry       bool
	detach      bool
}

func newRun(c *commands) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run KIND [SOURCE] [TARGET]",
		Short: "Run a job once, without a file",
		Long: `Run adds a job that runs once on one of the nodes, and waits for its end. Meanwhile it says
on stderr what the job waits for, or how far it has come. If the job crashes, it has failed;
with --retry it is tried again, as other jobs are. It is kept for a day after its end, and
then deleted. A kind without a source, such as prune, takes only the target.

Its name follows from the arguments, options, credentials, --node and --retry: while the
same job runs, the command waits for it. If it has ended, it runs again. Ctrl-C cancels
the job; with --detach, the command does not wait.` + exit.Help(exit.NotFound, exit.Interrupted),
		Example: `  feedctl jobs run consume https://data.example.org/feeds/orders 'postgres://shop@db.example.org/shop?table=public.orders'
  feedctl jobs run "bridge couchdb" https://couch.example.org/orders 's3://bucket/feeds#orders' --option attachments=inline --detach
  feedctl jobs run prune 's3://bucket/feeds#orders' --option keep-age=30d`,
		Args: cobra.RangeArgs(2, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			return explain(runRun(cmd.Context(), c, &f, args))
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) (kinds []string, _ cobra.ShellCompDirective) {
			if len(args) == 0 {
				kinds = slices.Sorted(maps.Keys(c.kinds))
			}
			return kinds, cobra.ShellCompDirectiveNoFileComp
		},
	}
	namespaceFlag(cmd, &f.namespace, "`NAMESPACE` of the job (default: default)")
	flags := cmd.Flags()
	flags.StringArrayVar(&f.options, "option", nil, "option of the job, as `NAME=VALUE`: a flag of the command, without --; may be repeated")
	flags.StringArrayVar(&f.credentials, "credential", nil, "credential of the source or the target, as `USE=REFERENCE`: source=env:NAME, target=file:PATH; may be repeated")
	flags.StringVar(&f.node, "node", "", "run on the node of this `NAME`; required for jobs that use local files")
	flags.BoolVar(&f.retry, "retry", false, "try again after temporary errors")
	flags.BoolVar(&f.detach, "detach", false, "do not wait for the end")
	return cmd
}

// document returns the document that arguments and flags describe.
func (f *runFlags) document(kinds jobs.Kinds, args []string) (d jobs.Document, err error) {
	d = jobs.Document{Namespace: cmp.Or(f.namespace, "default"), Kind: args[0], Options: map[string]jobs.Values{}, Credentials: map[string]string{}}
	takesSource := true
	if kind, ok := kinds[d.Kind].(interface{ TakesSource() bool }); ok {
		takesSource = kind.TakesSource()
	}
	switch {
	case len(args) > 2:
		d.Source, d.Target = args[1], args[2]
	case takesSource:
		d.Source = args[1]
	default:
		d.Target = args[1]
	}
	d.Placement.Node = f.node
	for _, option := range f.options {
		name, value, ok := strings.Cut(option, "=")
		if !ok || name == "" {
			return d, exit.Usagef("--option %q: want NAME=VALUE", option)
		}
		d.Options[name] = append(d.Options[name], value)
	}
	for _, credential := range f.credentials {
		use, reference, ok := strings.Cut(credential, "=")
		if !ok {
			return d, exit.Usagef("--credential: want source=REFERENCE or target=REFERENCE")
		}
		d.Credentials[use] = reference
	}
	return d, nil
}

func runRun(ctx context.Context, c *commands, f *runFlags, args []string) error {
	d, err := f.document(c.kinds, args)
	if err != nil {
		return err
	}
	store, err := c.open(ctx)
	if err != nil {
		return err
	}
	j, err := store.RunOnce(ctx, d, f.retry)
	if err != nil {
		return err
	}
	id := j.Document.ID()
	if j.Finished() {
		if _, err := store.Restart(ctx, id); err != nil {
			return err
		}
	}
	if f.detach {
		j, err = store.Get(ctx, id)
	} else {
		j, err = c.await(ctx, store, id)
		if ctx.Err() != nil {
			_, err := store.Cancel(context.WithoutCancel(ctx), id)
			return errors.Join(context.Cause(ctx), err)
		}
	}
	if err != nil {
		return err
	}
	err = c.Print(ranJSON{id, j.State, j.Reason}, func(w io.Writer) error {
		text := fmt.Sprintf("%s is %s", id, j.State)
		if j.State == jobs.Completed && j.Reason != "" {
			text += ": " + human.Printable(j.Reason)
		}
		return lines(w, text)
	})
	if err == nil && j.State == jobs.Failed {
		err = exit.WithHint(fmt.Errorf("job %s has failed: %s", id, j.Reason), fmt.Sprintf("\"feedctl jobs history %s\"", id))
	}
	return err
}

// await waits until a job has ended, and meanwhile shows its status.
func (c *commands) await(ctx context.Context, store *jobs.Scheduler, id string) (*jobs.Job, error) {
	if c.Terminal {
		defer c.Console.Clear()
	}
	var before string
	for {
		var d *jobs.Description
		err := c.patiently(ctx, func() (err error) {
			d, err = store.Describe(ctx, id)
			return err
		})
		if err != nil {
			return nil, err
		}
		if d.Finished() {
			return &d.Job, nil
		}
		status := "waits: " + d.Why
		if d.State == jobs.Running {
			status = d.Why
			if d.Stats != nil {
				status = fmt.Sprintf("%s, %s; %s", human.Plural(d.Stats.Entities, "entity", "entities"), human.Bytes(d.Stats.Bytes), d.Why)
			}
		}
		switch {
		case c.Terminal:
			c.Console.Show(human.Printable(id + ": " + status))
		case d.Why != before:
			c.Log.Info("waiting for the job", "job", id, "state", d.State, "why", d.Why)
		}
		before = d.Why
		if err := pause(ctx); err != nil {
			return nil, err
		}
	}
}

// patiently calls do, and calls it again as long as it fails because the database is unavailable.
func (c *commands) patiently(ctx context.Context, do func() error) error {
	for away := false; ; away = true {
		err := do()
		if !jobs.Unavailable(err) {
			return err
		}
		if !away {
			c.Log.Warn("database of jobs is unavailable, retrying", "error", err)
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

// pause waits for awaitEvery. If ctx ends first, it returns the cause.
func pause(ctx context.Context) error {
	timer := time.NewTimer(awaitEvery)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
