package jobscmd

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/jobs"
)

func newHistory(c *commands) *cobra.Command {
	var namespace string
	cmd := &cobra.Command{
		Use:   "history NAME",
		Short: "Show what happened to a job",
		Long: `History prints the last events of a job, newest first: when it was added, changed, paused
and resumed, when its runs started, stopped and crashed, on which node, and why.` + exit.Help(exit.NotFound, exit.Interrupted),
		Example: `  feedctl jobs history shop/orders
  feedctl jobs history orders -n shop --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return explain(runHistory(cmd.Context(), c, args[0], namespace))
		},
		ValidArgsFunction: c.completeNames(1),
	}
	nameFlag(cmd, &namespace)
	return cmd
}

// nameFlag adds --namespace to a command that takes one name.
func nameFlag(cmd *cobra.Command, namespace *string) {
	namespaceFlag(cmd, namespace, "`NAMESPACE` of a name without one (default: default)")
}

func runHistory(ctx context.Context, c *commands, arg, namespace string) error {
	store, id, err := c.find(ctx, arg, namespace)
	if err != nil {
		return err
	}
	events, err := store.History(ctx, id)
	if err != nil {
		return err
	}
	return c.Print(historyJSON{id, events}, func(w io.Writer) error { return writeEvents(w, events) })
}

// writeEvents writes a line for each event.
func writeEvents(w io.Writer, events []jobs.Event) error {
	var rows [][]string
	for _, e := range events {
		rows = append(rows, []string{human.Time(e.Time), string(e.Type), human.Printable(e.Node), human.Printable(e.Reason)})
	}
	return human.WriteTable(w, []string{"TIME", "EVENT", "NODE", "REASON"}, rows)
}
