package jobscmd

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/jobs"
)

func newDescribe(c *commands) *cobra.Command {
	var namespace string
	cmd := &cobra.Command{
		Use:   "describe NAME",
		Short: "Show all that is known about a job",
		Long: `Describe prints the document of a job, its state and the reason for it, the node that runs
it, its position, counters, last error and last events, and the equivalent command.` + exit.Help(exit.NotFound, exit.Interrupted),
		Example: `  feedctl jobs describe shop/orders
  feedctl jobs describe orders -n shop --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return explain(runDescribe(cmd.Context(), c, args[0], namespace))
		},
		ValidArgsFunction: c.completeNames(1),
	}
	nameFlag(cmd, &namespace)
	return cmd
}

func runDescribe(ctx context.Context, c *commands, arg, namespace string) error {
	d, err := c.describe(ctx, arg, namespace)
	if err != nil {
		return err
	}
	return c.Print(d, func(w io.Writer) error { return writeDescription(w, d) })
}

// describe returns all that is known about the job that an argument names.
func (c *commands) describe(ctx context.Context, arg, namespace string) (*jobs.Description, error) {
	store, id, err := c.find(ctx, arg, namespace)
	if err != nil {
		return nil, err
	}
	return store.Describe(ctx, id)
}

func writeDescription(w io.Writer, d *jobs.Description) error {
	var t namedLines
	t.add("job", "%s", d.Document.ID())
	t.add("state", "%s", d.Listed.State)
	t.add("why", "%s", d.Why)
	for _, f := range difference(nil, &d.Document) {
		t.add(f.Field, "%s", f.After)
	}
	t.add("generation", "%d, of the last run %d", d.Generation, d.Observed)
	if d.Lease != nil {
		t.add("node", "%s, last heard from %s ago", d.Node, human.Duration(d.Lease.Age))
	}
	if w := d.Watch; w != nil && w.By != "" && w.Error == "" && !w.Checked.IsZero() {
		t.add("watched", "by %s, last at %s", w.By, human.Time(w.Checked))
	}
	if d.Stats != nil {
		t.addStats(d.Stats)
	}
	for _, x := range []struct {
		name string
		time time.Time
	}{{"started", d.Started}, {"stopped", d.Stopped}, {"succeeded", d.Succeeded}, {"next run", nextRun(d)}} {
		if !x.time.IsZero() {
			t.add(x.name, "%s", human.Time(x.time))
		}
	}
	if e := d.LastError; e != nil {
		t.add("last error", "%s", e.Message)
		if e.Hint != "" {
			t.add("try", "%s", e.Hint)
		}
	}
	if d.Errors > 0 {
		t.add("errors", "%d in a row", d.Errors)
	}
	if d.Command != "" {
		t.add("command", "%s", d.Command)
	}
	if err := t.write(w); err != nil {
		return err
	}
	if err := lines(w, "events"); err != nil {
		return err
	}
	return writeEvents(w, d.Events)
}

// nextRun returns the time of the next run of a job that is waiting for it, and otherwise the zero
// time.
func nextRun(d *jobs.Description) time.Time {
	if d.Job.State != jobs.Pending {
		return time.Time{}
	}
	return d.NotBefore
}

// namedLines holds names and values, to be printed in two columns.
type namedLines [][2]string

func (t *namedLines) add(name, format string, args ...any) {
	*t = append(*t, [2]string{name, human.Printable(fmt.Sprintf(format, args...))})
}

func (t *namedLines) addStats(s *jobs.Stats) {
	t.add("processed", "%s (%s), %s repeated, %s rejected", human.Plural(s.Entities, "entity", "entities"), human.Bytes(s.Bytes), human.Count(s.Repeated), human.Count(s.Rejected))
	if s.Pending >= 0 {
		t.add("pending", "%s", human.Count(s.Pending))
	}
	if s.Lag >= 0 {
		t.add("lag", "%s", human.Duration(s.Lag))
	}
	if s.Position != "" {
		t.add("position", "%s", s.Position)
	}
	if s.SourcePosition != "" {
		t.add("source at", "%s", s.SourcePosition)
	}
}

func (t *namedLines) write(w io.Writer) error {
	width := 0
	for _, line := range *t {
		width = max(width, len(line[0]))
	}
	var b strings.Builder
	for _, line := range *t {
		fmt.Fprintf(&b, "%-*s  %s\n", width, line[0], line[1])
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func newPosition(c *commands) *cobra.Command {
	var namespace string
	cmd := &cobra.Command{
		Use:   "position NAME",
		Short: "Show how far a job has come",
		Long: `Position prints where a job stands in its source, and where the source ends, as far as the
last run has seen. The position itself is in the feed or the sink, written together with the
data: it cannot be set. To begin again, use another target, or delete the old one.` + exit.Help(exit.NotFound, exit.Interrupted),
		Example: `  feedctl jobs position shop/orders
  feedctl jobs position orders -n shop --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return explain(runPosition(cmd.Context(), c, args[0], namespace))
		},
		ValidArgsFunction: c.completeNames(1),
	}
	nameFlag(cmd, &namespace)
	return cmd
}

func runPosition(ctx context.Context, c *commands, arg, namespace string) error {
	d, err := c.describe(ctx, arg, namespace)
	if err != nil {
		return err
	}
	result := positionJSON{Job: d.Document.ID(), State: d.Listed.State, Stats: d.Stats}
	return c.Print(result, func(w io.Writer) error {
		if d.Stats == nil {
			return lines(w, d.Document.ID()+" has no position yet: runs report it every few seconds (setting stats-interval), and when they end")
		}
		var t namedLines
		t.addStats(d.Stats)
		return t.write(w)
	})
}
