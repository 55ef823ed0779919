package jobscmd

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/jobs"
)

// These constants limit how long a shell waits for the completions of an argument, and how many it
// gets.
const (
	completeWait = 2 * time.Second
	completeMost = 1000
)

// completeNames returns a function that completes the names of jobs, for a command that takes at
// most the given number of names, or any number if that is -1.
func (c *commands) completeNames(most int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if most >= 0 && len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return c.offer(cmd, func(ctx context.Context, s *jobs.Scheduler) (names []string, err error) {
			namespace, _ := cmd.Flags().GetString("namespace") // "" if the command does not have the flag
			_, err = eachUpTo(ctx, s, jobs.Filter{Namespace: namespace}, completeMost, func(j *jobs.Listed) {
				names = append(names, j.Document.ID())
				if namespace != "" || j.Document.Namespace == "default" {
					names = append(names, j.Document.Name)
				}
			})
			return names, err
		}), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeFlags makes shells complete the values of flags that several commands have.
func (c *commands) completeFlags(cmd *cobra.Command) {
	for flag, values := range map[string]cobra.CompletionFunc{
		"namespace": func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return c.offer(cmd, namespaces), cobra.ShellCompDirectiveNoFileComp
		},
		"after": c.completeNames(-1),
		"state": cobra.FixedCompletions(strings.Split(stateNames(), ", "), cobra.ShellCompDirectiveNoFileComp),
		"kind":  cobra.FixedCompletions(slices.Sorted(maps.Keys(c.kinds)), cobra.ShellCompDirectiveNoFileComp),
	} {
		if cmd.Flags().Lookup(flag) != nil {
			app.Must(cmd.RegisterFlagCompletionFunc(flag, values))
		}
	}
	for _, sub := range cmd.Commands() {
		c.completeFlags(sub)
	}
}

func namespaces(ctx context.Context, s *jobs.Scheduler) (names []string, err error) {
	tenants, err := s.Tenants(ctx)
	for n := range tenants {
		names = append(names, tenants[n].Namespace)
	}
	return names, err
}

// offer returns the names that list finds in the database. After an error it returns none, since a
// shell cannot show the error.
func (c *commands) offer(cmd *cobra.Command, list func(context.Context, *jobs.Scheduler) ([]string, error)) []string {
	if c.Configure(cmd, nil) != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completeWait)
	defer cancel()
	s, err := c.view(ctx)
	if err != nil {
		return nil
	}
	names, _ := list(ctx, s)
	return names
}
