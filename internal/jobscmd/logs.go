package jobscmd

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/jobs"
)

func newLogs(c *commands) *cobra.Command {
	var namespace string
	var follow bool
	cmd := &cobra.Command{
		Use:   "logs NAME",
		Short: "Show the warnings and errors of a job",
		Long: `Logs prints the last 200 warnings and errors that runs of a job have logged, oldest first,
with the run and its node. A run that has not ended adds its lines every few seconds (the
setting stats-interval).

With --follow it waits for more, until Ctrl-C; with --json as well, it prints an object for
each line.` + exit.Help(exit.NotFound, exit.Interrupted),
		Example: `  feedctl jobs logs shop/orders
  feedctl jobs logs orders -n shop -f`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return explain(runLogs(cmd.Context(), c, args[0], namespace, follow))
		},
		ValidArgsFunction: c.completeNames(1),
	}
	nameFlag(cmd, &namespace)
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "wait for more lines")
	return cmd
}

func runLogs(ctx context.Context, c *commands, arg, namespace string, follow bool) error {
	store, id, err := c.find(ctx, arg, namespace)
	if err != nil {
		return err
	}
	if follow {
		return c.followLogs(ctx, store, id)
	}
	found, err := store.Logs(ctx, id, 0)
	if err != nil {
		return err
	}
	return c.Print(logsJSON{id, found}, func(w io.Writer) error { return writeLog(w, found...) })
}

// followLogs prints the lines of a job's log, and then new lines until ctx ends.
func (c *commands) followLogs(ctx context.Context, store *jobs.Scheduler, id string) error {
	for after := int64(0); ; {
		var found []jobs.LogLine
		err := c.patiently(ctx, func() (err error) {
			found, err = store.Logs(ctx, id, after)
			return err
		})
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		for _, l := range found {
			if err := c.Print(l, func(w io.Writer) error { return writeLog(w, l) }); err != nil {
				return err
			}
			after = l.Number
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

// writeLog writes lines of a log.
func writeLog(w io.Writer, found ...jobs.LogLine) error {
	for _, l := range found {
		var attrs strings.Builder
		for _, name := range slices.Sorted(maps.Keys(l.Attrs)) {
			fmt.Fprintf(&attrs, " %s=%q", name, l.Attrs[name])
		}
		text := fmt.Sprintf("%s %s run %d on %s: %s%s", human.Time(l.Time), l.Level, l.Run, l.Node, l.Message, attrs.String())
		if err := lines(w, human.Printable(text)); err != nil {
			return err
		}
	}
	return nil
}
