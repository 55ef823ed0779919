package jobscmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/jobs"
)

func newExport(c *commands) *cobra.Command {
	var s selection
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Print the stored jobs as a file of jobs",
		Long: `Export prints jobs in the form that "jobs apply" and "jobs standalone" read: YAML, or JSON
with --json. They are printed as applied, even if they have been paused or resumed since.
Jobs of "jobs run" are left out. Credentials are references.` + exit.Help(exit.NotFound, exit.Interrupted),
		Example: `  feedctl jobs export >jobs.yaml
  feedctl jobs export -n shop --db sqlite:jobs.db | feedctl jobs apply -f - --db postgres://db.example.org/jobs`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return explain(runExport(cmd.Context(), c, &s)) },
	}
	s.flags(cmd)
	return cmd
}

func runExport(ctx context.Context, c *commands, s *selection) error {
	filter, err := s.filter()
	if err != nil {
		return err
	}
	store, err := c.view(ctx)
	if err != nil {
		return err
	}
	write := jobs.WriteYAML
	if c.JSON {
		write = jobs.WriteJSON
	}
	return write(c.Out, store.Export(ctx, filter))
}
