package jobscmd

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

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
	store, err := c.open(ctx)
	if err != nil {
		return err
	}
	j, err := get(ctx, store, arg, namespace)
	if err != nil {
		return err
	}
	events, err := store.History(ctx, j.Document.ID())
	if err != nil {
		return err
	}
	return c.Print(historyJSON{j.Document.ID(), events}, func(w io.Writer) error { return writeEvents(w, "", events) })
}

// writeEvents writes a line for each event.
func writeEvents(w io.Writer, indent string, events []jobs.Event) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, e := range events {
		fmt.Fprintf(t, "%s%s\t%s\t%s\t%s\n", indent, e.Time.UTC().Format(time.RFC3339), e.Type, cell(e.Node), oneLine(e.Reason))
	}
	return t.Flush()
}

// cell returns a text for a column of a table.
func cell(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// oneLine returns a text of several lines as one.
func oneLine(text string) string {
	return human.Printable(strings.Join(strings.Fields(text), " "))
}
