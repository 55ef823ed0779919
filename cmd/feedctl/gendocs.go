package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/internal/cli"
	"github.com/feedctl/feedctl/internal/exit"
)

func newGenDocs() *cobra.Command {
	return &cobra.Command{
		Use:     "gen-docs DIR",
		Short:   "Write the help of all commands as Markdown files",
		Long:    "Gen-docs writes the help of every command as a Markdown file into DIR." + exit.Help(),
		Example: "  feedctl gen-docs docs/cli",
		Hidden:  true,
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return fmt.Errorf("create directory of the documentation: %w", err)
			}
			return cli.WriteDocs(args[0], c.Root())
		},
	}
}
