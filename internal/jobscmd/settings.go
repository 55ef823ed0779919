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

func newSettings(c *commands) *cobra.Command {
	return &cobra.Command{
		Use:   "settings [NAME=VALUE…]",
		Short: "Show and change the settings of the scheduler",
		Long: `Settings prints the settings of the scheduler, with their defaults. With arguments it
changes some first: NAME=VALUE sets one, and NAME= resets it to its default. Either all of
them are changed, or none. They are stored in the database; nodes use them within seconds.

Times are a number and a unit, such as 90s, 4h30m or 7d.` + exit.Help(exit.NotFound, exit.Interrupted),
		Example: `  feedctl jobs settings
  feedctl jobs settings max-jobs=200 backoff-max=10m
  feedctl jobs settings max-jobs=`,
		RunE:              func(cmd *cobra.Command, args []string) error { return explain(runSettings(cmd.Context(), c, args)) },
		ValidArgsFunction: completeSettings,
	}
}

func runSettings(ctx context.Context, c *commands, args []string) error {
	changes := map[string]string{}
	for _, arg := range args {
		name, value, ok := strings.Cut(arg, "=")
		if _, twice := changes[name]; !ok || twice {
			return exit.Usagef("%q: want NAME=VALUE for each setting, or NAME= for its default", arg)
		}
		changes[name] = value
	}
	open := c.view
	if len(changes) > 0 {
		open = c.open
	}
	store, err := open(ctx)
	if err != nil {
		return err
	}
	settings, err := store.Settings(ctx)
	if len(changes) > 0 {
		settings, err = store.Set(ctx, changes)
	}
	if err != nil {
		return err
	}
	list := settings.List()
	return c.Print(list, func(w io.Writer) error {
		var rows [][]string
		for _, s := range list {
			rows = append(rows, []string{s.Name, s.Value, s.Default, s.Bounds, s.Usage})
		}
		return human.WriteTable(w, []string{"NAME", "VALUE", "DEFAULT", "BOUNDS", "MEANING"}, rows)
	})
}

// completeSettings completes the names of settings.
func completeSettings(_ *cobra.Command, _ []string, text string) ([]string, cobra.ShellCompDirective) {
	var names []string
	for _, s := range jobs.Defaults().List() {
		if !strings.Contains(text, "=") {
			names = append(names, cobra.CompletionWithDesc(s.Name+"=", s.Usage))
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}
