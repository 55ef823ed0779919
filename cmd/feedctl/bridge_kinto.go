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
		Use:   "kinto COLLECTIONURL|BUCKETURL FEED|STORE#FEED",
		Short: "Publish the changes of a Kinto collection, or of all collections in a bucket",
		Long: `Kinto publishes the changes of the collection at COLLECTIONURL to FEED in the store, which
is created if it does not exist. A record becomes a PUT of its JSON object as the server
sent it; the tombstone of a record that the feed has becomes a DELETE.

The position is kept in the newest page of the feed, so after an interrupted or killed run,
the next run continues from there, and each version of a record is in the feed once.
Records that cannot be published go into the quarantine of the feed: see "feedctl bridge
quarantine". The exit status is 6 if there are more of them than --max-quarantine allows;
by default, if no record could be published.

A server may make changes visible late (--window), and forget tombstones. So all ids are
compared with the feed once per --reconcile, and whenever there is a sign that something is
missing; records that are gone without a tombstone are deleted from the feed, but no more
than --max-gone allows. Without the right to read the collection, nothing is published.
"feedctl verify --against" proves that the feed has what the collection has.

With the URL of a bucket, each of its collections has its own feed: FEED has one "*", which
is replaced with the name of the collection. --collections selects some of them. With
--follow, the collections are listed again after six times --interval, and new ones are
published, too. A collection that fails does not affect the others: without --follow, the
exit status is that of the failure; with it, the failure is logged, and the collection is
tried again. If a collection that has a feed no longer exists, --on-gone says what happens
to its feed: with stop, the feed stays as it is, which counts as a failure.
--max-quarantine applies to all collections together.

The credential for the server, in --credentials-file or FEEDCTL_CREDENTIALS, is a line
"basic USER:PASSWORD" or "bearer TOKEN".` + exit.Help(exit.NotFound, exit.Quarantine, exit.Interrupted),
		Example: `  feedctl bridge kinto https://kinto.example.org/v1/buckets/dns/collections/zones zones
  feedctl bridge kinto https://kinto.example.org/v1/buckets/dns/collections/zones zones --follow --metrics 127.0.0.1:9464
  feedctl bridge kinto http://127.0.0.1:8888/v1/buckets/blog/collections/posts s3://bucket/data#posts --newest-first --attachments inline
  feedctl bridge kinto https://kinto.example.org/v1/buckets/blog 'blog-*' --collections 'posts*' --collections authors
  feedctl verify zones --against kinto:https://kinto.example.org/v1/buckets/dns/collections/zones`,
		Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			t.Source.URL, t.Feed = args[0], args[1]
			a.Follower = t.Follow
			if err := a.ServeMetrics(address, metrics.Bridge(t.Progress)); err != nil {
				return err
			}
			a.Progress("bridge", t.Status)
			if t.OfBucket() {
				return runBridgeBucket(c.Context(), a, &t)
			}
			return runBridgeKinto(c.Context(), a, &t)
		},
	}
	t.Flags(c.Flags())
	c.Flags().StringVar(&address, "metrics", "", app.MetricsUsage)
	return c
}

func runBridgeKinto(ctx context.Context, a *app.App, t *task.BridgeKinto) error {
	result, err := t.Run(ctx, &a.Env)
	if result == nil {
		return err
	}
	return cmp.Or(err, a.Print(result, func(w io.Writer) error { return writeKinto(w, result) }))
}

// runBridgeBucket publishes a bucket. It prints what it has done even if some of the collections
// failed.
func runBridgeBucket(ctx context.Context, a *app.App, t *task.BridgeKinto) error {
	result, err := t.RunBucket(ctx, &a.Env)
	if result == nil {
		return err
	}
	return cmp.Or(err, a.Print(result, func(w io.Writer) error {
		for _, one := range result.Collections {
			err := writeKinto(w, &one)
			if err == nil && one.Error != "" {
				_, err = fmt.Fprintf(w, "  failed: %s\n", human.Printable(one.Error))
			}
			if err != nil {
				return err
			}
		}
		_, err := fmt.Fprintf(w, "published %s of %s\n", human.Plural(result.Published, "entity", "entities"), human.Plural(int64(len(result.Collections)), "collection", "collections"))
		return err
	}))
}

func writeKinto(w io.Writer, result *task.KintoBridged) error {
	err := writePublished(w, published{result.Published, result.Quarantined, result.Repeated}, result.Source, result.Feed)
	if s := result.Snapshot; err == nil && s != nil {
		_, err = fmt.Fprintf(w, "made snapshot %s/%s of %s\n", s.Name, s.ID, human.Plural(*s.Entities, "entity", "entities"))
	}
	return err
}
