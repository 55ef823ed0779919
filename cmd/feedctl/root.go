package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/feedctl/feedctl/internal/cli"
	"github.com/feedctl/feedctl/internal/complete"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/storage"
)

// streams are what a command reads from and writes to.
type streams struct {
	in       io.Reader
	out, err io.Writer
	terminal bool // err is a terminal
	screen   bool // out is a terminal
}

func osStreams() streams {
	return streams{
		in:       os.Stdin,
		out:      os.Stdout,
		err:      os.Stderr,
		terminal: term.IsTerminal(int(os.Stderr.Fd())),
		screen:   term.IsTerminal(int(os.Stdout.Fd())),
	}
}

// run executes one command line and returns its exit status.
func run(ctx context.Context, args []string, s streams) int {
	a := newApp(s)
	defer a.web.CloseIdleConnections()
	root := newRoot(a)
	root.SetArgs(args)
	if len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd) {
		cli.PlainUsage(root)
	}
	command, err := root.ExecuteContextC(ctx)
	if err != nil && !a.running {
		err = explainUsage(command, err)
	}
	if err = a.end(err); err == nil && a.output.err != nil {
		err = fmt.Errorf("write to standard output: %w", a.output.err)
	}
	err = exit.Signal(ctx, err, a.follower)
	a.printRequests()
	if err != nil {
		a.printError(err)
	}
	return exit.Status(err)
}

const rootLong = `feedctl publishes, serves, consumes, checks and prunes feeds and snapshots as
the datareplication.io specification describes them.

A feed is a chain of pages that only grows: "feedctl publish" appends entities to one in a
store, "feedctl serve" serves its pages over HTTP, and "feedctl consume" copies them into a
file, a directory or a database, each entity exactly once.

Wherever a command takes the NAME of a feed or snapshot in the store of --store, it also
takes STORE#NAME, such as s3://bucket/prefix#zones or file:/var/lib/feedctl#zones. Commands
that read also take the URL of one on a server.

Every flag can also be set by the environment and by a configuration file. The command line
wins over the environment, which wins over the file. The variable of a flag is its name in
capitals, with FEEDCTL_ before it and "_" for "-": --public-url is FEEDCTL_PUBLIC_URL.
The file is YAML, --config FILE or else ~/.config/feedctl/config.yaml, with flags by their
names at the top, or in a section named like the command, which wins:

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

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "feedctl",
		Short: "Publish, serve, consume and check datareplication.io feeds",
		Long:  rootLong + exit.Help(exit.NotFound, exit.Gap, exit.Invalid, exit.Quarantine, exit.Interrupted),
		Example: `  feedctl publish zones data/zones.ndjson --key /id
  feedctl serve --listen 127.0.0.1:8080
  feedctl consume http://127.0.0.1:8080/feeds/zones --into sqlite:zones.db
  feedctl consume 's3://bucket/prefix?region=eu-central-1#zones' --into sqlite:zones.db`,
		Args:              cobra.NoArgs,
		SilenceErrors:     true,
		SilenceUsage:      true,
		PersistentPreRunE: a.configure,
	}
	version := root.Flags().Bool("version", false, "print the version of feedctl")
	root.RunE = func(c *cobra.Command, args []string) error {
		if *version {
			return a.printVersion()
		}
		return needCommand(c, args)
	}
	a.addGlobalFlags(root.PersistentFlags())
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.SetIn(a.in)
	root.SetFlagErrorFunc(cli.ExplainFlag)
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(
		newPublish(a),
		newServe(a),
		newCopy(a),
		newList(a),
		newInit(a),
		newMigrate(a),
		newConsume(a),
		newStatus(a),
		newTail(a),
		newBridge(a),
		newInspect(a),
		newVerify(a),
		newSnapshot(a),
		newDoctor(a),
		newPrune(a),
		newDelete(a),
		newRepair(a),
		newOutbox(a),
		newCompletion(),
		newVersion(a),
		newGenDocs(),
	)
	completer := complete.Completer{
		SetFlags: func(c *cobra.Command) error { return cli.SetFlags(c, a.config) },
		Store:    &a.store,
		Open:     func(ctx context.Context, url string) (storage.Store, error) { return a.openStoreAt(ctx, url, access{}) },
	}
	completer.Add(root)
	a.noteRun(root)
	return root
}

// needCommand is the RunE of a command that only groups others.
func needCommand(c *cobra.Command, _ []string) error {
	return exit.WithHint(exit.Usagef("%s needs a command", cli.Name(c)), c.CommandPath()+" --help")
}

// explainUsage puts into words what is wrong with a command line that cobra refuses, and names the
// help of the command.
func explainUsage(c *cobra.Command, err error) error {
	if exit.Status(err) == exit.Usage {
		return err
	}
	return exit.WithHint(exit.Usagef("%s", sink.Redact(cli.Explain(c, err.Error()))), c.CommandPath()+" --help")
}

// noteRun has commands note that they run: until then, errors are about the command line, and
// cobra's have no type.
func (a *app) noteRun(c *cobra.Command) {
	if run := c.RunE; run != nil {
		c.RunE = func(c *cobra.Command, args []string) error {
			a.running = true
			return run(c, args)
		}
	}
	for _, sub := range c.Commands() {
		a.noteRun(sub)
	}
}
