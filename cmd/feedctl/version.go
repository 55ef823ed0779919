package main

import (
	_ "embed"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/internal/exit"
)

// notices are the licences of what is linked into the binary: "make generate".
//
//go:embed notices.txt
var notices string

func newVersion(a *app) *cobra.Command {
	showNotices := false
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version of feedctl",
		Long:    "Version prints the version of feedctl, the commit it was built from, and the Go\nversion that built it." + exit.Help(),
		Example: "  feedctl version\n  feedctl version --json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if showNotices {
				_, err := io.WriteString(a.out, notices)
				return err
			}
			return a.printVersion()
		},
	}
	cmd.Flags().BoolVar(&showNotices, "notices", false, "print the licences of the libraries in the binary instead")
	return cmd
}

func (a *app) printVersion() error {
	v := buildVersion()
	commit := ""
	if v.Commit != "" {
		commit = " (" + v.Commit + ")"
	}
	return a.printf(v, "feedctl %s%s, %s %s\n", v.Version, commit, v.Go, v.Platform)
}

// buildVersion returns what the linker knows: a module version for a binary
// made by "go install", a commit for one built in a checkout.
func buildVersion() versionJSON {
	v := versionJSON{Version: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}
