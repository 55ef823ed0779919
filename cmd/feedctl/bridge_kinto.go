package main

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/internal/metrics"
	"github.com/feedctl/feedctl/internal/task"
)

func newBridgeKinto(a *app.App) *cobra.Command {
	var t task.BridgeKinto
	address := ""
	c := &cobra.Command{
		Use:   "kinto COLLECTIONURL FEED|STORE#FEED",
		Short: "Publish the changes of a Kinto collection",
		Long: `Kinto publishes the changes of the collection at COLLECTIONURL to FEED in the store, which
is created if it does not exist. A record becomes a PUT of its JSON object as the server
sent it, the tombstone of a record that the feed has becomes a DELETE.

The position is kept in the newest page of the feed, so an interrupted or killed run
continues where it was, and each version of a record is in the feed once. Records that
cannot be published go into the quarantine of the feed: see "feedctl bridge quarantine".
The exit status is 6 if there are more of them than --max-quarantine allows; by default,
if no record could be published.

A server may make changes visible late (--window), and forget tombstones. So all ids are
compared with the feed once in --reconcile, and whenever there is a sign that something is
missing; what is gone without a tombstone is deleted from the feed, but at most
--max-gone. Without the right to read the collection, nothing is published. "feedctl
verify --against" proves that the feed has what the collection has.

The credential for the server, in --credentials-file or FEEDCTL_CREDENTIALS, is a line
"basic USER:PASSWORD" or "bearer TOKEN".` + exit.Help(exit.NotFound, exit.Quarantine, exit.Interrupted),
		Example: `  feedctl bridge kinto https://kinto.example.org/v1/buckets/dns/collections/zones zones
  feedctl bridge kinto https://kinto.example.org/v1/buckets/dns/collections/zones zones --follow --metrics 127.0.0.1:9464
  feedctl bridge kinto http://127.0.0.1:8888/v1/buckets/blog/collections/posts s3://bucket/data#posts --newest-first --attachments inline
  feedctl verify zones --against kinto:https://kinto.example.org/v1/buckets/dns/collections/zones`,
		Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			t.Source.URL, t.Feed = args[0], args[1]
			return runBridgeKinto(c.Context(), a, &t, address)
		},
	}
	t.Flags(c.Flags())
	c.Flags().StringVar(&address, "metrics", "", app.MetricsUsage)
	return c
}

func runBridgeKinto(ctx context.Context, a *app.App, t *task.BridgeKinto, address string) error {
	a.Follower = t.Follow
	if err := a.ServeMetrics(address, metrics.Bridge(t.Progress)); err != nil {
		return err
	}
	a.Progress("bridge", t.Status)
	result, err := t.Run(ctx, &a.Env)
	if result == nil {
		return err
	}
	return cmp.Or(err, a.Print(result, func(w io.Writer) error {
		err := writePublished(w, published{result.Published, result.Quarantined, result.Repeated}, result.Source, result.Feed)
		if s := result.Snapshot; err == nil && s != nil {
			_, err = fmt.Fprintf(w, "made snapshot %s/%s of %s\n", s.Name, s.ID, human.Plural(*s.Entities, "entity", "entities"))
		}
		return err
	}))
}
