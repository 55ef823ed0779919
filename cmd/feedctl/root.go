package main

import (
	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/jobscmd"
	"github.com/feedctl/feedctl/jobs/kinds"
)

const rootLong = `feedctl publishes, serves, consumes, checks and prunes feeds and snapshots as
the datareplication.io specification describes them.

A feed is a chain of pages that only grows: "feedctl publish" appends entities to one in a
store, "feedctl serve" serves its pages over HTTP, and "feedctl consume" copies them into a
file, a directory or a database, each entity exactly once.

Wherever a command takes the NAME of a feed or snapshot in the store of --store, it also
takes STORE#NAME, such as s3://bucket/prefix#zones or file:/var/lib/feedctl#zones. Commands
that read also take the URL of a feed or snapshot on a server.

Every flag can also be set by the environment and by a configuration file. The command line
wins over the environment, which wins over the file. The variable of a flag is its name in
capitals, with FEEDCTL_ before it and "_" for "-": --public-url is FEEDCTL_PUBLIC_URL.
The file is YAML: --config FILE or else ~/.config/feedctl/config.yaml. It sets flags by
their names, at the top or in a section named after the command, which wins:

  store: file:/var/lib/feedctl
  serve:
    listen: 127.0.0.1:8080
  snapshot:
    from-feed:
      public-url: https://data.example.org

Credentials are never flags. They are in a file (--credentials-file) or in the
variable FEEDCTL_CREDENTIALS, one on each line: "basic USER:PASSWORD" or
"bearer TOKEN".

On the first Ctrl-C or SIGTERM a command finishes or undoes what it has begun, and exits
with status 130; the second ends it at once. A command that runs until it is ended
(--follow, outbox run, serve) exits with status 0 after SIGTERM if it finished what it had
begun.`

func newRoot(a *app.App) *cobra.Command {
	root := &cobra.Command{
		Use:   "feedctl",
		Short: "Publish, serve, consume and check datareplication.io feeds",
		Long:  rootLong + exit.Help(exit.NotFound, exit.Gap, exit.Invalid, exit.Quarantine, exit.Differs, exit.Interrupted),
		Example: `  feedctl publish zones data/zones.ndjson --key /id
  feedctl serve --listen 127.0.0.1:8080
  feedctl consume http://127.0.0.1:8080/feeds/zones --into sqlite:zones.db
  feedctl consume 's3://bucket/prefix?region=eu-central-1#zones' --into sqlite:zones.db`,
		Args: cobra.NoArgs,
	}
	version := root.Flags().Bool("version", false, "print the version of feedctl")
	root.RunE = func(c *cobra.Command, args []string) error {
		if *version {
			return printVersion(a)
		}
		return app.NeedCommand(c, args)
	}
	root.AddCommand(
		newPublish(a),
		newServe(a),
		newCopy(a),
		newList(a),
		newInit(a),
		newMigrate(a),
		newConsume(a),
		newRestore(a),
		newStatus(a),
		newTail(a),
		newBridge(a),
		newInspect(a),
		newVerify(a),
		newSnapshot(a),
		newDigest(a),
		newDoctor(a),
		newPrune(a),
		newRetain(a),
		newDelete(a),
		newErase(a),
		newReconcile(a),
		newRepair(a),
		newNewEpoch(a),
		newOutbox(a),
		jobscmd.New(a, kinds.All()),
		newCompletion(),
		newVersion(a),
		newGenDocs(),
	)
	a.Prepare(root)
	return root
}
