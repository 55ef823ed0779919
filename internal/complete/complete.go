// Package complete lists the values that shells offer to complete the arguments and flags of feedctl.
package complete

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
	"github.com/feedctl/feedctl/internal/locate"
	"github.com/feedctl/feedctl/outbox"
	"github.com/feedctl/feedctl/snapshot/snapshots"
	"github.com/feedctl/feedctl/storage"
)

// These constants limit how long a shell waits for names that complete an argument, and how many it gets.
const (
	completeWait  = 2 * time.Second
	completeNames = 1000
)

// A Completer completes arguments and flags, mostly with names from stores.
type Completer struct {
	SetFlags func(*cobra.Command) error // sets flags from the environment and the configuration file
	Store    *string                    // URL of the store for names that are typed without one
	Open     func(ctx context.Context, storeURL string) (storage.Store, error)
}

// values returns the values that a flag of c takes, if there are only a few.
func values(c *cobra.Command, flag string) []string {
	starts := []string{"beginning", "latest"}
	if c.Name() != "tail" {
		starts = append(starts, "snapshot")
	}
	attachments := []string{string(couchdb.None), string(couchdb.Stub), string(couchdb.Inline)}
	if c.Name() == "couchdb" {
		attachments = append(attachments, string(couchdb.Multipart))
	}
	return map[string][]string{
		"format":      input.Formats,
		"op":          {"PUT", "PATCH", "DELETE"},
		"log-format":  {"text", "json"},
		"log-level":   {"debug", "info", "warn", "error"},
		"attachments": attachments,
		"on-gone":     {"stop", "delete"},
		"on-gap":      {"fail", "replay", "snapshot"},
		"from":        starts,
	}[flag]
}

// names returns a function that lists, given the arguments of c, the names that a flag of c takes. It returns
// nil if the flag takes other values.
func (x *Completer) names(c *cobra.Command, flag string) func(ctx context.Context, args []string) []string {
	switch {
	case c.Name() == "list" && flag == "after":
		return func(ctx context.Context, args []string) []string {
			return x.stored(ctx, append(args, *x.Store)[0], chain.Feeds, snapshots.Names)
		}
	case flag == "before-snapshot":
		return func(ctx context.Context, args []string) []string {
			at := locate.Stored{Store: *x.Store}
			if len(args) > 0 {
				at, _ = locate.Parse(args[0], *x.Store) // for an invalid argument, no names are found
			}
			return x.stored(ctx, at.Store, snapshots.Names)
		}
	case flag == "feed" && c.Flags().Lookup("db") != nil && c.Name() != "attach": // attach takes a new name
		return func(ctx context.Context, _ []string) []string { return feedsOfOutbox(ctx, c.Flag("db").Value.String()) }
	}
	return nil
}

// Add makes shells complete the values of flags, and the name of a feed or snapshot in commands whose usage
// line has such an argument.
func (x *Completer) Add(c *cobra.Command) {
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		var complete cobra.CompletionFunc
		if names := x.names(c, f.Name); names != nil {
			complete = func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
				return x.offer(c, "", typed, func(ctx context.Context) []string { return names(ctx, args) }), cobra.ShellCompDirectiveNoFileComp
			}
		} else if list := values(c, f.Name); list != nil {
			complete = cobra.FixedCompletions(list, cobra.ShellCompDirectiveNoFileComp)
		} else {
			return
		}
		// This fails only if the flag does not exist or already has a completion function.
		_ = c.RegisterFlagCompletionFunc(f.Name, complete)
	})
	for position, word := range strings.Fields(c.Use)[1:] {
		if !strings.Contains(word, "STORE#") {
			continue
		}
		forms := strings.Split(strings.Trim(word, "[]."), "|")
		c.ValidArgsFunction = func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			switch {
			case len(args) == position, len(args) > position && strings.HasSuffix(word, "..."):
				return x.argument(c, forms, typed), cobra.ShellCompDirectiveDefault
			case len(args) == position+1 && strings.HasSuffix(c.Use, " ID"):
				return x.offer(c, "", typed, func(ctx context.Context) []string { return x.snapshotIDs(ctx, args[position]) }), cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveDefault
		}
	}
	for _, sub := range c.Commands() {
		x.Add(sub)
	}
}

// argument returns the names that begin with what was typed, in one of the forms that the argument has (FEED,
// NAME, STORE#FEED or STORE#NAME).
func (x *Completer) argument(c *cobra.Command, forms []string, typed string) []string {
	store, prefix, whole := strings.Cut(typed, "#")
	wantsSnapshot := slices.Contains(forms, "NAME")
	if !whole {
		store, prefix = "", typed
		if locate.IsURL(typed) || !wantsSnapshot && !slices.Contains(forms, "FEED") {
			return nil
		}
	}
	return x.offer(c, strings.TrimSuffix(typed, prefix), prefix, func(ctx context.Context) []string {
		names := chain.Feeds
		if index, _ := c.Flags().GetBool("index"); index || wantsSnapshot { // inspect and verify have the flag --index
			names = snapshots.Names
		}
		return x.stored(ctx, cmp.Or(store, *x.Store), names)
	})
}

// offer returns the names that begin with prefix, each preceded by the string before. After an error it
// returns no names, since a shell cannot show the error.
func (x *Completer) offer(c *cobra.Command, before, prefix string, names func(context.Context) []string) (found []string) {
	if x.SetFlags(c) != nil {
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

// stored returns the names that the given functions list in a store.
func (x *Completer) stored(ctx context.Context, storeURL string, lists ...func(context.Context, storage.Store, string) iter.Seq2[string, error]) (names []string) {
	store, err := x.Open(ctx, storeURL)
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

// snapshotIDs returns the IDs of the snapshots with the name that an argument gives.
func (x *Completer) snapshotIDs(ctx context.Context, arg string) []string {
	at, err := locate.Parse(arg, *x.Store)
	if err != nil {
		return nil
	}
	store, err := x.Open(ctx, at.Store)
	if err != nil {
		return nil
	}
	ids, _, _ := snapshots.List(ctx, store, at.Name)
	return ids
}

// feedsOfOutbox returns the names of the feeds of an outbox.
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
