package main

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/feedctl/feedctl/bridge/couchdb"
	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/input"
	"github.com/feedctl/feedctl/internal/cli"
	"github.com/feedctl/feedctl/internal/locate"
	"github.com/feedctl/feedctl/outbox"
	"github.com/feedctl/feedctl/snapshot/snapshots"
	"github.com/feedctl/feedctl/storage"
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
		return input.Formats
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

// flagNames returns what lists the names that a flag of c takes, beside these arguments; nil if
// it takes others.
func (a *app) flagNames(c *cobra.Command, flag string) func(ctx context.Context, args []string) []string {
	switch {
	case c.Name() == "list" && flag == "after":
		return func(ctx context.Context, args []string) []string {
			return a.namesIn(ctx, a.storeOf(args), chain.Feeds, snapshots.Names)
		}
	case flag == "before-snapshot":
		return func(ctx context.Context, args []string) []string {
			at := locate.Stored{Store: a.store}
			if len(args) > 0 {
				at, _ = a.parseStored(args[0]) // a wrong one has no names
			}
			return a.namesIn(ctx, at.Store, snapshots.Names)
		}
	case flag == "feed" && c.Flags().Lookup("db") != nil && c.Name() != "attach": // which names a new one
		return func(ctx context.Context, _ []string) []string { return feedsOfOutbox(ctx, c.Flag("db").Value.String()) }
	}
	return nil
}

// addCompletions makes shells complete the values of flags and, where the usage line of a
// command has one, the name of a feed or snapshot.
func (a *app) addCompletions(c *cobra.Command) {
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		complete := cobra.FixedCompletions(flagValues(c, f.Name), cobra.ShellCompDirectiveNoFileComp)
		if names := a.flagNames(c, f.Name); names != nil {
			complete = func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
				return a.offer(c, "", typed, func(ctx context.Context) []string { return names(ctx, args) }), cobra.ShellCompDirectiveNoFileComp
			}
		} else if flagValues(c, f.Name) == nil {
			return
		}
		// It fails for a flag that does not exist or is completed already.
		_ = c.RegisterFlagCompletionFunc(f.Name, complete)
	})
	for position, word := range strings.Fields(c.Use)[1:] {
		if !strings.Contains(word, "STORE#") {
			continue
		}
		forms := strings.Split(strings.Trim(word, "[]"), "|")
		c.ValidArgsFunction = func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			switch {
			case len(args) == position:
				return a.completeStored(c, forms, typed), cobra.ShellCompDirectiveDefault
			case len(args) == position+1 && strings.HasSuffix(c.Use, " ID"):
				return a.offer(c, "", typed, func(ctx context.Context) []string { return a.snapshotIDs(ctx, args[position]) }), cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveDefault
		}
	}
	for _, sub := range c.Commands() {
		a.addCompletions(sub)
	}
}

// completeStored returns the names that begin as typed, in one of the forms that the argument
// has (FEED, NAME, STORE#FEED or STORE#NAME).
func (a *app) completeStored(c *cobra.Command, forms []string, typed string) []string {
	store, prefix, whole := strings.Cut(typed, "#")
	wantsSnapshot := slices.Contains(forms, "NAME")
	if !whole {
		store, prefix = "", typed
		if locate.IsURL(typed) || !wantsSnapshot && !slices.Contains(forms, "FEED") {
			return nil
		}
	}
	return a.offer(c, strings.TrimSuffix(typed, prefix), prefix, func(ctx context.Context) []string {
		names := chain.Feeds
		if index, _ := c.Flags().GetBool("index"); index || wantsSnapshot { // the flag of inspect and verify
			names = snapshots.Names
		}
		return a.namesIn(ctx, cmp.Or(store, a.store), names)
	})
}

// offer returns the names that begin with prefix, with before in front of them. A shell has no
// place for errors: where there is one, there are no names.
func (a *app) offer(c *cobra.Command, before, prefix string, names func(context.Context) []string) (found []string) {
	if cli.SetFlags(c, a.config) != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(c.Context(), completeWait)
	defer cancel()
	for _, name := range names(ctx) {
		if strings.HasPrefix(name, prefix) && len(found) < completeNames {
			found = append(found, before+name)
		}
	}
	return found
}

// namesIn returns names in a store.
func (a *app) namesIn(ctx context.Context, rawURL string, lists ...func(context.Context, storage.Store, string) iter.Seq2[string, error]) (names []string) {
	store, err := a.openStoreAt(ctx, rawURL, access{})
	if err != nil {
		return nil
	}
	for _, list := range lists {
		for name, err := range list(ctx, store, "") {
			if err != nil {
				return names
			}
			names = append(names, name)
		}
	}
	return names
}

// snapshotIDs returns the IDs of the snapshots of a name in a store.
func (a *app) snapshotIDs(ctx context.Context, arg string) []string {
	store, name, err := a.openNamed(ctx, arg)
	if err != nil {
		return nil
	}
	ids, _, _ := snapshots.List(ctx, store, name)
	return ids
}

// feedsOfOutbox returns the names of the feeds that an outbox knows.
func feedsOfOutbox(ctx context.Context, url string) (names []string) {
	db, err := outbox.Open(ctx, url)
	if err != nil {
		return nil
	}
	defer db.Close()
	status, _ := db.Status(ctx)
	for _, f := range status.Feeds {
		names = append(names, f.Feed)
	}
	return names
}
