package main

import (
	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/internal/exit"
)

func newCompletion() *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "Print a completion script for a shell",
		Long: `Completion prints a script that teaches a shell to complete feedctl's commands,
flags and their values, and the names of feeds and snapshots in the store of --store or,
after STORE#, in STORE. Bash also needs the package bash-completion.` + exit.Help(),
		Example: `  source <(feedctl completion bash)
  feedctl completion fish > ~/.config/fish/completions/feedctl.fish`,
		Args:                  cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs:             []string{"bash", "zsh", "fish", "powershell"},
		DisableFlagsInUseLine: true,
		RunE: func(c *cobra.Command, args []string) error {
			root, out := c.Root(), c.OutOrStdout()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(out, true)
			case "zsh":
				return root.GenZshCompletion(out)
			case "fish":
				return root.GenFishCompletion(out, true)
			default:
				return root.GenPowerShellCompletionWithDesc(out)
			}
		},
	}
}
