package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/internal/task"
)

func newErase(a *app.App) *cobra.Command {
	var t task.Erase
	yes := false
	c := &cobra.Command{
		Use:   "erase FEED|STORE#FEED [KEY...]",
		Short: "Remove what a feed says about some keys",
		Long: `Erase rewrites FEED in the store so that nothing is left of what it says about each KEY. In
place of each entity of a KEY, the feed has a DELETE of the KEY, with the same Content-ID
and time. If the last entity of a KEY is not a DELETE, one is published for consumers that
have read the feed. All other entities stay as they are, and so do the positions of
consumers. Snapshots of FEED with a KEY are replaced with a new one.

All pages are written again, under new numbers, and the former pages are deleted. The feed
can be read and published to meanwhile; at the end, producers wait for a moment. If the
command is interrupted, run it again. It asks for confirmation; without a terminal it needs
--yes. First update servers, producers and consumers of versions without this command.

The KEY itself stays in the feed, so that consumers can apply the DELETE. When all of them
have read it, --forget-keys replaces the KEY. Content-IDs are never changed. What
consumers, caches, backups and former versions of objects hold is not erased: see "Erase a
key" in docs/operations.md.` + exit.Help(exit.NotFound, exit.Interrupted),
		Example: `  feedctl erase people ann@example.org --dry-run
  feedctl erase s3://bucket/prefix#people --keys-from keys.txt --yes
  feedctl erase events 4711 --key /user/id`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			t.Feed, t.Keys = args[0], args[1:]
			if !yes {
				t.Confirm = func(ctx context.Context, found *task.Erased) error { return confirmErase(ctx, a, found) }
			}
			return runErase(c.Context(), a, &t)
		},
	}
	t.Flags(c.Flags())
	c.Flags().BoolVar(&yes, "yes", false, "do not ask for confirmation")
	excludePublic(c)
	return c
}

func runErase(ctx context.Context, a *app.App, t *task.Erase) error {
	a.Progress("erase", t.Status)
	done, err := t.Run(ctx, &a.Env)
	if errors.Is(err, chain.ErrNoFeed) {
		if store, name, opened := a.OpenNamed(ctx, t.Feed); opened == nil {
			err = suggestFeed(ctx, store, name, err)
		}
	}
	if err != nil {
		return err
	}
	if err := a.Printf(done, "%s", eraseText(done)); err != nil {
		return err
	}
	switch {
	case done.Kept > 0:
		return fmt.Errorf("erase from feed %q: kept %s with these keys, published meanwhile: repeat the command to erase them too",
			done.Feed, human.Plural(done.Kept, "entity", "entities"))
	case len(done.Unknown) > 0 && done.Entities == 0 && len(done.Snapshots) == 0 && done.Former == 0:
		return exit.Errorf(exit.NotFound, "erase from feed %q: it has no entity with the key %q", done.Feed, done.Unknown[0])
	}
	return nil
}

// eraseText describes what was erased, or would be.
func eraseText(e *task.Erased) string {
	var b strings.Builder
	erased, wrote, published, replaced, deleted := "erased", "wrote", "published", "replaced", "deleted"
	if e.DryRun {
		erased, wrote, published, replaced, deleted = "would erase", "would write", "would publish", "would replace", "would delete"
	}
	deletes := human.Plural(e.Deletes, "DELETE", "DELETEs")
	fmt.Fprintf(&b, "%s %s on %d of %s of feed %s\n", erased, human.Plural(e.Entities, "entity", "entities"), e.Affected, human.Plural(e.Pages, "page", "pages"), e.Feed)
	switch {
	case e.Entities > 0:
		fmt.Fprintf(&b, "%s %s again, and %s %s\n", wrote, human.Bytes(e.Bytes), published, deletes)
	case e.Deletes > 0:
		fmt.Fprintf(&b, "%s %s, since a snapshot has a key that no page has\n", published, deletes)
	}
	for _, snapshot := range e.Snapshots {
		fmt.Fprintf(&b, "%s snapshot %s\n", replaced, snapshot)
	}
	if e.Former > 0 {
		fmt.Fprintf(&b, "%s %s: former pages, quarantine entries or state digests\n", deleted, human.Plural(e.Former, "other object", "other objects"))
	}
	for _, key := range e.Unknown {
		fmt.Fprintf(&b, "no entity has the key %s\n", human.Printable(key))
	}
	return b.String()
}

// confirmErase asks on the terminal whether to erase. Without a terminal, it returns an error.
func confirmErase(ctx context.Context, a *app.App, e *task.Erased) error {
	snapshots := human.Plural(int64(len(e.Snapshots)), "snapshot", "snapshots")
	question := fmt.Sprintf("erase %s, write all %s of feed %s (%s) again, and replace %s?",
		human.Plural(e.Entities, "entity", "entities"), human.Plural(e.Pages, "page", "pages"), e.Feed, human.Bytes(e.Bytes), snapshots)
	if e.Entities == 0 {
		question = fmt.Sprintf("publish %s to feed %s, and replace %s?", human.Plural(e.Deletes, "DELETE", "DELETEs"), e.Feed, snapshots)
	}
	switch yes, err := a.Confirm(ctx, question); {
	case errors.Is(err, app.ErrNoTerminal):
		return exit.Usagef("erase from feed %q: %w: use --yes, or --dry-run to see what would be erased", e.Feed, err)
	case err != nil:
		return fmt.Errorf("erase from feed %q: nothing was erased: %w", e.Feed, err)
	case !yes:
		return fmt.Errorf("erase from feed %q: not confirmed, nothing was erased", e.Feed)
	}
	return nil
}
