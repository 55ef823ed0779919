// Package app provides what all commands of feedctl share: the global flags, the log, the streams and what is
// printed on them, and the resources that are closed at the end.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/feedctl/feedctl/internal/cli"
	"github.com/feedctl/feedctl/internal/complete"
	"github.com/feedctl/feedctl/internal/console"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/metrics"
	"github.com/feedctl/feedctl/internal/progress"
	"github.com/feedctl/feedctl/internal/task"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/observe"
	"github.com/feedctl/feedctl/storage/stores"
)

// Streams are what a command reads from and writes to.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	Terminal bool // Err is a terminal
	Screen   bool // Out is a terminal
}

// OSStreams returns the streams of the process.
func OSStreams() Streams {
	return Streams{
		In:       os.Stdin,
		Out:      os.Stdout,
		Err:      os.Stderr,
		Terminal: term.IsTerminal(int(os.Stderr.Fd())),
		Screen:   term.IsTerminal(int(os.Stdout.Fd())),
	}
}

// An App executes one command line. Its Env is the environment of the command: whatever is opened through the
// Env is closed when the command ends.
type App struct {
	Streams
	task.Env
	Console *console.Console // Streams.Err with a progress line
	JSON    bool             // print results as JSON
	// Follower is set by a command that runs until a signal ends it.
	Follower bool

	output       *output // Out
	begun        time.Time
	running      bool              // the command has begun, so its command line is valid
	counters     []storage.Counter // one for each store that was opened
	web          *metrics.Transport
	logged       metrics.Tally // counts the messages in the log, by level
	stopProgress func()

	config    string
	verbose   bool
	logFormat string
	logLevel  string
	trace     string
}

// New returns an App for a command line that uses the streams.
func New(s Streams) *App {
	con, out := console.New(s.Err), &output{w: console.Escape(s.Out)}
	a := &App{Console: con, output: out, begun: time.Now(), web: metrics.NewTransport(), stopProgress: func() {}}
	a.Env = task.Env{Log: slog.New(slog.DiscardHandler), Transport: a.web, Output: s.Out, Opened: a.count}
	if s.Screen { // escape entities on a terminal, and only there
		a.Output = out
	}
	if s.Terminal {
		a.Missing = a.printMissing
	}
	s.Err, s.Out = con, out
	a.Streams = s
	return a
}

// Prepare makes c the root of the command line. All commands must have been added to c.
func (a *App) Prepare(c *cobra.Command) {
	flags := c.PersistentFlags()
	flags.StringVar(&a.Store, "store", "file:./feedctl-data", "`URL` of the store: "+stores.Forms)
	flags.StringVar(&a.config, "config", "", "configuration `FILE` (default ~/.config/feedctl/config.yaml, if it exists)")
	flags.BoolVar(&a.JSON, "json", false, "print results on stdout, and the final error on stderr, as JSON")
	flags.BoolVarP(&a.verbose, "verbose", "v", false, "at the end, print on stderr how long it took and how many requests were made")
	flags.StringVar(&a.logFormat, "log-format", "text", "`FORMAT` of log lines on stderr: text or json")
	flags.StringVar(&a.logLevel, "log-level", "", "lowest `LEVEL` of log lines: debug, info, warn or error (default warn on a terminal, else info)")
	flags.StringVar(&a.trace, "trace", "", traceUsage)
	c.SilenceErrors, c.SilenceUsage = true, true
	c.PersistentPreRunE = a.Configure
	c.SetOut(a.Out)
	c.SetErr(a.Err)
	c.SetIn(a.In)
	c.SetFlagErrorFunc(cli.ExplainFlag)
	c.CompletionOptions.DisableDefaultCmd = true
	completer := complete.Completer{
		SetFlags: func(c *cobra.Command) error { return cli.SetFlags(c, a.config) },
		Store:    &a.Store,
		Open: func(ctx context.Context, url string) (storage.Store, error) {
			return a.OpenStore(ctx, url, task.Access{})
		},
	}
	completer.Add(c)
	a.noteRun(c)
}

// Run executes a command line with the commands of root and returns its exit status.
func (a *App) Run(ctx context.Context, root *cobra.Command, args []string) int {
	defer a.web.CloseIdleConnections()
	root.SetArgs(args)
	if len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd) {
		cli.PlainUsage(root)
	}
	command, err := root.ExecuteContextC(ctx)
	if err != nil && !a.running {
		err = explainUsage(command, err)
	}
	a.stopProgress()
	if err = a.Close(err); err == nil && a.output.err != nil {
		err = fmt.Errorf("write to standard output: %w", a.output.err)
	}
	err = exit.Signal(ctx, err, a.Follower)
	a.printRequests()
	if err != nil {
		a.printError(err)
	}
	return exit.Status(err)
}

// noteRun makes commands record that they have begun to run. An error before that is a usage error, which
// cannot be told from its type since cobra's errors have none.
func (a *App) noteRun(c *cobra.Command) {
	if run := c.RunE; run != nil {
		c.RunE = func(c *cobra.Command, args []string) error {
			a.running = true
			return traced(c, func() error { return run(c, args) })
		}
	}
	for _, sub := range c.Commands() {
		a.noteRun(sub)
	}
}

// explainUsage returns an error that explains what is wrong with a command line that cobra refuses, with a
// hint to the help of the command.
func explainUsage(c *cobra.Command, err error) error {
	if exit.Status(err) == exit.Usage {
		return err
	}
	return exit.WithHint(exit.Usagef("%s", sink.Redact(cli.Explain(c, err.Error()))), c.CommandPath()+" --help")
}

// NeedCommand is the RunE of a command that only groups others.
func NeedCommand(c *cobra.Command, _ []string) error {
	return exit.WithHint(exit.Usagef("%s needs a command", cli.Name(c)), c.CommandPath()+" --help")
}

// Must panics if err is not nil. It is for operations that can fail only because of a mistake in this
// program.
func Must(err error) {
	if err != nil {
		panic(err)
	}
}

// credentialVariables holds the environment variables that are read in addition to those that set flags.
var credentialVariables = []string{
	"FEEDCTL_AGAINST_CREDENTIALS", "FEEDCTL_CREDENTIALS", "FEEDCTL_INTO_CREDENTIALS", "FEEDCTL_READ_CREDENTIALS", "FEEDCTL_WRITE_CREDENTIALS",
}

// Configure runs before every command: it completes the flags and sets up the log.
func (a *App) Configure(c *cobra.Command, _ []string) error {
	if err := cli.SetFlags(c, a.config); err != nil {
		return err
	}
	handler, err := console.LogHandler(a.Err, a.logFormat, a.logLevel, a.Terminal)
	if err != nil {
		return err
	}
	a.Log = slog.New(metrics.CountLog(handler, &a.logged))
	cli.WarnUnknownVariables(c.Root(), a.Log, credentialVariables...)
	return a.openTracer(c)
}

// count returns store, or a store that wraps it, such that requests are counted for --verbose.
func (a *App) count(store storage.Store) storage.Store {
	if counter, ok := storage.As[storage.Counter](store); ok {
		a.counters = append(a.counters, counter)
	} else if a.verbose {
		operations := new(metrics.Tally)
		a.counters = append(a.counters, operations)
		store = observe.Wrap(store, func(_ context.Context, o observe.Operation) { operations.Add(o.Name) })
	}
	return store
}

// ErrNoTerminal means that a question cannot be asked, because there is no terminal.
var ErrNoTerminal = errors.New("there is no terminal to ask on")

// Confirm asks a question, and reports whether the answer is yes. It asks only on a terminal, and otherwise
// returns ErrNoTerminal.
func (a *App) Confirm(ctx context.Context, question string) (bool, error) {
	in, ok := a.In.(*os.File)
	if !ok || !a.Terminal || !term.IsTerminal(int(in.Fd())) {
		return false, ErrNoTerminal
	}
	fmt.Fprintf(a.Err, "%s [y/N] ", question)
	return console.Confirm(ctx, in)
}

// Progress shows the status of a command until it prints its result, or ends.
func (a *App) Progress(verb string, read func() progress.Status) {
	d := progress.Display{Log: a.Log}
	if a.Terminal {
		d.Terminal = a.Console
	}
	a.stopProgress = d.Show(verb, read)
}
