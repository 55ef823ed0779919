package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/internal/task"
)

func newDigest(a *app.App) *cobra.Command {
	var t task.MakeDigest
	c := &cobra.Command{
		Use:   "digest FEED|STORE#FEED|URL",
		Short: "Make or show a digest of a feed's state, for comparing copies",
		Long: `Digest reads FEED in the store and writes a state digest: hashes of the last state of all
things that were not deleted, in the order of their keys. With the digest, anyone who has a
copy can find out what differs, without reading the state ("feedctl reconcile"). The digest
takes about 150 bytes for each thing; a comparison reads little of it.

The server finds the newest digest in the store. Digests share what has not changed. A
digest is removed when there has been a newer one for a day.

With --state-dir, the state is kept, and the next run reads only new entities and computes
only what they change. Use one directory for each store. "feedctl snapshot from-feed
--digest" makes a snapshot and a digest of the same state.

With a URL, or with --show, the command shows the newest digest.` + exit.Help(exit.NotFound, exit.Invalid, exit.Interrupted),
		Example: `  feedctl digest zones
  feedctl digest s3://bucket/data#zones --state-dir /var/lib/feedctl
  feedctl digest https://data.example.org/feeds/zones --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			t.Feed = args[0]
			a.Progress("digest", t.Status)
			d, err := t.Run(c.Context(), &a.Env)
			if err != nil {
				return err
			}
			return a.Print(d, func(w io.Writer) error { return writeDigest(w, d) })
		},
	}
	t.Flags(c.Flags())
	return c
}

func writeDigest(w io.Writer, d *task.StateDigest) error {
	made := "newest state digest"
	if d.Written != nil {
		made = "made state digest " + d.ID
	}
	_, err := fmt.Fprintf(w, "%s of %s: %s in %s, hash %s\n", made, d.Feed, human.Plural(d.Keys, "key", "keys"), human.Plural(int64(d.Nodes), "node", "nodes"), d.Hash)
	if err == nil {
		_, err = fmt.Fprintf(w, "position: %s, after %s\n", human.Time(d.Position.LastModified), human.Printable(d.Position.ContentID))
	}
	if err == nil && d.Written != nil {
		_, err = fmt.Fprintf(w, "computed %s (%s), %s new\n", human.Plural(d.Written.Objects, "object", "objects"), human.Bytes(d.Written.Bytes), human.Count(d.Written.New))
	}
	return err
}
