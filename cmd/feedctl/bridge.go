package main

import (
	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/exit"
)

func newBridge(a *app.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "bridge",
		Short: "Publish what changes in a database",
		Long: `Bridge turns the changes of a database into entities of a feed, each exactly once. The
position in the database is kept in the feed itself.` + exit.Help(),
		Example: `  feedctl bridge couchdb https://couch.example.org/zones zones --follow
  feedctl bridge kinto https://kinto.example.org/v1/buckets/dns/collections/zones zones --follow
  feedctl bridge quarantine zones`,
		Args: cobra.NoArgs,
		RunE: app.NeedCommand,
	}
	c.AddCommand(newBridgeCouchDB(a), newBridgeKinto(a), newBridgeQuarantine(a))
	return c
}

// sourceHelp explains the credential of a database.
const sourceHelp = `

The credential for the database, in --credentials-file or FEEDCTL_CREDENTIALS, is one of the
lines "basic USER:PASSWORD", "session USER:PASSWORD" (a cookie), "bearer TOKEN" and "proxy
USER SECRET [ROLES]".`
