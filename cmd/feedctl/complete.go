package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/feedctl/feedctl/bridge/couchdb"
	"github.com/feedctl/feedctl/chain"
)

// How long a shell waits for names that complete an argument, and how many it gets.
const (
	completeWait  = 2 * time.Second
	completeNames = 1000
)

// flagValues returns the values of a flag of c that takes one of a few.
func flagValues(c *cobra.Command, flag string) []string {
	switch flag {
	case "format":
		return []string{"ndjson", "multipart", "dir", "raw"}
	case "op":
		return []string{"PUT", "PATCH", "DELETE"}
	case "log-format":
		return []string{"text", "json"}
	case "log-level":
		return []string{"debug", "info", "warn", "error"}
	case "attachments":
		return []string{string(couchdb.None), string(couchdb.Stub), string(couchdb.Inline), string(couchdb.Multipart)}
	case "on-gap":
		return []string{"fail", "replay", "snapshot"}
	case "from":
		if c.Name() == "tail" {
			return []string{"beginning", "latest"}
		}
		return []string{"beginning", "latest", "snapshot"}
	}
	return nil
}

// addCompletions makes shells complete the values of flags and, where the usage line of a
// command has one, the name of a feed or snapshot.
func (a *app) addCompletions(c *cobra.Command) {
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if values := flagValues(c, f.Name); values != nil {
			// It fails for a flag that does not exist or is completed already.
			_ = c.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
		}
	})
	for position, word := range strings.Fields(c.Use)[1:] {
		if !strings.Contains(word, "STORE#") {
			continue
		}
		forms := strings.Split(strings.Trim(word, "[]"), "|")
		c.ValidArgsFunction = func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			if len(args) != position {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return a.completeStored(c, forms, typed), cobra.ShellCompDirectiveDefault
		}
	}
	for _, sub := range c.Commands() {
		a.addCompletions(sub)
	}
}

// completeStored returns the names that begin as typed, in one of the forms that the argument
// has (FEED, NAME, STORE#FEED or STORE#NAME). A store that cannot be read has none: a shell
// has no place for errors.
func (a *app) completeStored(c *cobra.Command, forms []string, typed string) []string {
	if setFlags(c, a.config) != nil {
		return nil
	}
	snapshots := slices.Contains(forms, "NAME")
	rawURL, prefix := a.store, typed
	if store, name, whole := strings.Cut(typed, "#"); whole {
		rawURL, prefix = store, name
	} else if isURL(typed) || !snapshots && !slices.Contains(forms, "FEED") {
		return nil
	}
	ctx, cancel := context.WithTimeout(c.Context(), completeWait)
	defer cancel()
	store, err := a.openStoreAt(ctx, rawURL, access{})
	if err != nil {
		return nil
	}
	defer store.Close()
	names := chain.Feeds
	if index, _ := c.Flags().GetBool("index"); index || snapshots { // the flag of inspect and verify
		names = chain.Snapshots
	}
	var found []string
	for name, err := range names(ctx, store, "") {
		if err != nil || len(found) == completeNames {
			break
		}
		if strings.HasPrefix(name, prefix) {
			found = append(found, strings.TrimSuffix(typed, prefix)+name)
		}
	}
	return found
}

// plainUsage takes the backquotes around the values of flags out of the help, which shells
// show as it is.
func plainUsage(c *cobra.Command) {
	c.Flags().VisitAll(func(f *pflag.Flag) { f.Usage = strings.ReplaceAll(f.Usage, "`", "") })
	c.PersistentFlags().VisitAll(func(f *pflag.Flag) { f.Usage = strings.ReplaceAll(f.Usage, "`", "") })
	for _, sub := range c.Commands() {
		plainUsage(sub)
	}
}
