package jobscmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/jobs"
)

// awaitEvery is how often a command that waits for a job, or for lines, reads the database.
const awaitEvery = 500 * time.Millisecond

type runFlags struct {
	namespace   string
	options     []string
	credentials []string
	node        string
	detach      bool
}

func newRun(c *commands) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run KIND SOURCE [TARGET]",
		Short: "Run a job once, without a file",
		Long: `Run adds a job that runs once on one of the nodes, and waits for its end. It is not retried
if it crashes. It is kept for a day after its end, and then deleted.

Its name follows from kind, source, target, options and credentials: while the same job
runs, the command waits for that. If it has ended, it runs again. Ctrl-C cancels the job;
with --detach, the command does not wait.` + exit.Help(exit.NotFound, exit.Interrupted),
		Example: `  feedctl jobs run consume https://data.example.org/feeds/orders 'postgres://shop@db.example.org/shop?table=public.orders'
  feedctl jobs run "bridge couchdb" https://couch.example.org/orders 's3://bucket/feeds#orders' --option attachments=inline --detach`,
		Args: cobra.RangeArgs(2, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			return explain(runRun(cmd.Context(), c, &f, args))
		},
	}
	namespaceFlag(cmd, &f.namespace, "`NAMESPACE` of the job (default: default)")
	flags := cmd.Flags()
	flags.StringArrayVar(&f.options, "option", nil, "option of the job, as `NAME=VALUE`: a flag of the command, without --; may be repeated")
	flags.StringArrayVar(&f.credentials, "credential", nil, "credential of the source or the target, as `USE=REFERENCE`: source=env:NAME, target=file:PATH; may be repeated")
	flags.StringVar(&f.node, "node", "", "run on the node of this `NAME`, which jobs need that use local files")
	flags.BoolVar(&f.detach, "detach", false, "do not wait for the end")
	return cmd
}

// document returns what arguments and flags say.
func (f *runFlags) document(args []string) (d jobs.Document, err error) {
	d = jobs.Document{Namespace: "default", Kind: args[0], Source: args[1], Options: map[string]jobs.Values{}, Credentials: map[string]string{}}
	if f.namespace != "" {
		d.Namespace = f.namespace
	}
	if len(args) > 2 {
		d.Target = args[2]
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
	d, err := f.document(args)
	if err != nil {
		return err
	}
	store, err := c.open(ctx)
	if err != nil {
		return err
	}
	j, err := store.RunOnce(ctx, d)
	if err != nil {
		return err
	}
	id := j.Document.ID()
	if j.Finished() {
		if _, err := store.Restart(ctx, id); err != nil {
			return err
		}
		if j, err = store.Get(ctx, id); err != nil {
			return err
		}
	}
	if !f.detach {
		j, err = await(ctx, store, id)
		if ctx.Err() != nil {
			_, err := store.Cancel(context.WithoutCancel(ctx), id)
			return errors.Join(context.Cause(ctx), err)
		}
		if err != nil {
			return err
		}
	}
	err = c.Print(ranJSON{id, j.State, j.Reason}, func(w io.Writer) error {
		return lines(w, fmt.Sprintf("%s is %s", id, j.State))
	})
	if err == nil && j.State == jobs.Failed {
		err = exit.WithHint(fmt.Errorf("job %s has failed: %s", id, j.Reason), fmt.Sprintf("\"feedctl jobs history %s\"", id))
	}
	return err
}

// await waits until a job has ended.
func await(ctx context.Context, store *jobs.Scheduler, id string) (*jobs.Job, error) {
	for {
		j, err := store.Get(ctx, id)
		if err != nil || j.Finished() {
			return j, err
		}
		if err := pause(ctx); err != nil {
			return nil, err
		}
	}
}

// pause waits for awaitEvery, or returns why ctx has ended.
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
