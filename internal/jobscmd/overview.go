package jobscmd

import (
	"context"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/jobs"
)

func newNodes(c *commands) *cobra.Command {
	return &cobra.Command{
		Use:   "nodes",
		Short: "List the nodes that run jobs",
		Long: `Nodes prints a line for each node: whether it is alive, how many jobs it runs and may run,
when it was started and last heard from. The jobs of a node that is lost run elsewhere
within 30 seconds, unless they are pinned to it.` + exit.Help(exit.NotFound, exit.Interrupted),
		Example: `  feedctl jobs nodes
  feedctl jobs nodes --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return explain(overview(cmd.Context(), c, (*jobs.Scheduler).Nodes, []string{"NAME", "STATE", "RUNNING", "SLOTS", "LABELS", "UP", "HEARD", "VERSION"}, nodeRow))
		},
	}
}

func nodeRow(n *jobs.NodeStatus) []string {
	state := "lost"
	if n.Alive {
		state = "alive"
	}
	return []string{
		n.Name, state, strconv.Itoa(n.Running), strconv.Itoa(n.Slots), strings.Join(n.Labels, ","),
		human.Duration(n.Up), human.Duration(n.Age) + " ago", n.Version,
	}
}

func newOrigins(c *commands) *cobra.Command {
	return &cobra.Command{
		Use:   "origins",
		Short: "List the servers that jobs use",
		Long: `Origins prints a line for each server that jobs read from or write to: whether it works,
until when its jobs wait if it does not, and how many jobs it has. While a server is down,
one job at a time tries it; as soon as one succeeds, all of them run again.` + exit.Help(exit.NotFound, exit.Interrupted),
		Example: `  feedctl jobs origins
  feedctl jobs origins --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return explain(overview(cmd.Context(), c, (*jobs.Scheduler).Origins, []string{"ORIGIN", "STATE", "JOBS", "RUNNING", "CRASHING", "FAILURES", "NEXT TRY", "LAST ERROR"}, originRow))
		},
	}
}

func originRow(o *jobs.OriginStatus) []string {
	state, next := "up", ""
	if o.Wait > 0 {
		state, next = "waits", human.Duration(o.Wait)
	}
	if o.Down {
		state = "down"
	}
	return []string{o.Origin, state, strconv.Itoa(o.Jobs), strconv.Itoa(o.Running), strconv.Itoa(o.Crashing), strconv.Itoa(o.Failures), next, o.Reason}
}

// overview prints what the given function of the scheduler lists, as a table.
func overview[T any](ctx context.Context, c *commands, list func(*jobs.Scheduler, context.Context) ([]T, error), header []string, row func(*T) []string) error {
	store, err := c.view(ctx)
	if err != nil {
		return err
	}
	found, err := list(store, ctx)
	if err != nil {
		return err
	}
	if found == nil {
		found = []T{} // [] in JSON
	}
	return c.Print(found, func(w io.Writer) error {
		if len(found) == 0 {
			return lines(w, "none")
		}
		var rows [][]string
		for n := range found {
			cells := row(&found[n])
			for k := range cells {
				cells[k] = human.Printable(cells[k])
			}
			rows = append(rows, cells)
		}
		return human.WriteTable(w, header, rows)
	})
}
