package jobscmd

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/jobs"
)

type listFlags struct {
	selection
	limit int
	after string
}

func newList(c *commands) *cobra.Command {
	var f listFlags
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List jobs and where they stand",
		Long: `List prints how many jobs are in each state, and then a line for each, ordered by name:

  LAG      age of the oldest change that the job has not processed
  PENDING  changes that the job has not processed
  ERR      consecutive errors
  NEXT     time until the next run, of a job that waits for it
  NODE     where it runs
  SINCE    how long it has been in its state

Without flags it lists the jobs of all namespaces. With --limit and --after it pages through
many.` + exit.Help(exit.NotFound, exit.Interrupted),
		Example: `  feedctl jobs list
  feedctl jobs list -n shop --state crashing,failed
  feedctl jobs list --origin db.example.org --selector team=data --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return explain(runList(cmd.Context(), c, &f)) },
	}
	f.flags(cmd)
	cmd.Flags().IntVar(&f.limit, "limit", 0, "end after this `NUMBER` of jobs (default: no limit)")
	cmd.Flags().StringVar(&f.after, "after", "", "begin after the job `NAME`")
	return cmd
}

func runList(ctx context.Context, c *commands, f *listFlags) error {
	if f.limit < 0 {
		return exit.Usagef("invalid --limit %d: must not be negative", f.limit)
	}
	filter, err := f.filter()
	if err != nil {
		return err
	}
	if f.after != "" {
		filter.After = id(f.after, f.namespace)
	}
	store, err := c.view(ctx)
	if err != nil {
		return err
	}
	result := listJSON{Jobs: []jobs.Listed{}}
	if result.Totals, err = store.Totals(ctx, filter); err != nil {
		return err
	}
	result.Next, err = eachUpTo(ctx, store, filter, f.limit, func(j *jobs.Listed) { result.Jobs = append(result.Jobs, *j) })
	if err != nil {
		return err
	}
	return c.Print(&result, func(w io.Writer) error { return result.write(w) })
}

func (l *listJSON) write(w io.Writer) error {
	if err := lines(w, totalsText(l.Totals)); err != nil || len(l.Jobs) == 0 {
		return err
	}
	var rows [][]string
	for n := range l.Jobs {
		j := &l.Jobs[n]
		lag, pending := "-", "-"
		if j.Stats != nil && j.Stats.Lag >= 0 {
			lag = human.Duration(j.Stats.Lag)
		}
		if j.Stats != nil && j.Stats.Pending >= 0 {
			pending = human.Count(j.Stats.Pending)
		}
		rows = append(rows, []string{
			j.Document.ID(), j.Document.Kind, string(j.State), lag, pending, human.Count(j.Errors),
			next(j), human.Printable(j.Node), human.Duration(max(0, j.Now.Sub(j.Since))),
		})
	}
	if err := human.WriteTable(w, []string{"NAME", "KIND", "STATE", "LAG", "PENDING", "ERR", "NEXT", "NODE", "SINCE"}, rows); err != nil || l.Next == "" {
		return err
	}
	return lines(w, "more: --after "+l.Next)
}

// totalsText returns a text that says how many jobs are in each state.
func totalsText(totals map[jobs.State]int) string {
	var parts []string
	all := 0
	for _, state := range jobs.States() {
		if n := totals[state]; n > 0 {
			all += n
			parts = append(parts, human.Count(int64(n))+" "+string(state))
		}
	}
	text := human.Plural(int64(all), "job", "jobs")
	if len(parts) > 0 {
		text += ": " + strings.Join(parts, ", ")
	}
	return text
}

// next returns the time until the next run of a job that is waiting for it, as text, or "-" for
// other jobs.
func next(j *jobs.Listed) string {
	if j.Job.State != jobs.Pending {
		return "-"
	}
	return human.Duration(max(0, j.NotBefore.Sub(j.Now)))
}
