package main

import (
	_ "embed"
	"io"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/cli"
	"github.com/feedctl/feedctl/internal/exit"
)

// notices are the licences of what is linked into the binary: "make generate".
//
//go:embed notices.txt
var notices string

func newVersion(a *app.App) *cobra.Command {
	showNotices := false
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version of feedctl",
		Long:    "Version prints the version of feedctl, the commit it was built from, and the Go\nversion that built it." + exit.Help(),
		Example: "  feedctl version\n  feedctl version --json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if showNotices {
				_, err := io.WriteString(a.Out, notices)
				return err
			}
			return printVersion(a)
		},
	}
	cmd.Flags().BoolVar(&showNotices, "notices", false, "print the licences of the libraries in the binary instead")
	return cmd
}

func printVersion(a *app.App) error {
	v := cli.ThisVersion()
	commit := ""
	if v.Commit != "" {
		commit = " (" + v.Commit + ")"
	}
	return a.Printf(v, "feedctl %s%s, %s %s\n", v.Version, commit, v.Go, v.Platform)
}
