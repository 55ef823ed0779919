package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/feedctl/feedctl/internal/cli"
	"github.com/feedctl/feedctl/internal/console"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/metrics"
	"github.com/feedctl/feedctl/internal/progress"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/stores"
)

// app is what all commands share: the global flags and the streams.
type app struct {
	streams
	console *console.Console // err, and the progress line on it
	output  *output          // out
	data    io.Writer        // standard output for entities: as they are, but on a terminal escaped
	log     *slog.Logger

	begun    time.Time
	running  bool              // the command line is good
	follower bool              // the command runs until a signal ends it
	counters []storage.Counter // of the stores that were opened
	web      *metrics.Transport
	logged   metrics.Tally // messages in the log, by level

	stopProgress func()
	closers      []func() error // of the command's resources

	store     string
	config    string
	json      bool
	verbose   bool
	logFormat string
	logLevel  string
}

func newApp(s streams) *app {
	con, out := console.New(s.err), newOutput(s.out)
	data := s.out
	if s.screen {
		data = out
	}
	s.err, s.out = con, out
	return &app{streams: s, console: con, output: out, data: data, log: slog.New(slog.DiscardHandler), begun: time.Now(), web: metrics.NewTransport(), stopProgress: func() {}}
}

func (a *app) addGlobalFlags(flags *pflag.FlagSet) {
	flags.StringVar(&a.store, "store", "file:./feedctl-data", "`URL` of the store: "+stores.Forms)
	flags.StringVar(&a.config, "config", "", "configuration `FILE` (default ~/.config/feedctl/config.yaml, if it exists)")
	flags.BoolVar(&a.json, "json", false, "print results on stdout, and the final error on stderr, as JSON")
	flags.BoolVarP(&a.verbose, "verbose", "v", false, "at the end, print on stderr how long it took and how many requests were made")
	flags.StringVar(&a.logFormat, "log-format", "text", "`FORMAT` of log lines on stderr: text or json")
	flags.StringVar(&a.logLevel, "log-level", "", "lowest `LEVEL` of log lines: debug, info, warn or error (default warn on a terminal, else info)")
}

// credentialVariables are read beside those that set flags.
var credentialVariables = []string{
	"FEEDCTL_CREDENTIALS", "FEEDCTL_INTO_CREDENTIALS", "FEEDCTL_READ_CREDENTIALS", "FEEDCTL_WRITE_CREDENTIALS",
}

// configure runs before every command: it completes the flags and sets up the
// log.
func (a *app) configure(c *cobra.Command, _ []string) error {
	if err := cli.SetFlags(c, a.config); err != nil {
		return err
	}
	handler, err := console.LogHandler(a.err, a.logFormat, a.logLevel, a.terminal)
	if err != nil {
		return err
	}
	a.log = slog.New(metrics.CountLog(handler, &a.logged))
	cli.WarnUnknownVariables(c.Root(), a.log, credentialVariables...)
	return nil
}

// print writes a result to stdout: v with --json, else what text writes.
func (a *app) print(v any, text func(w io.Writer) error) error {
	a.stopProgress()
	err := error(nil)
	if a.json {
		err = writeJSON(a.out, v)
	} else {
		err = text(a.out)
	}
	if err != nil {
		return fmt.Errorf("write to standard output: %w", err)
	}
	return nil
}

// printf writes a result to stdout: v with --json, else a text in the format of package fmt.
func (a *app) printf(v any, format string, args ...any) error {
	return a.print(v, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, format, args...)
		return err
	})
}

// writeJSON writes v as one line.
func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// printError tells the user why the command ends.
func (a *app) printError(err error) {
	a.console.Clear()
	hint := exit.Hint(err)
	if a.json {
		// If standard error fails, there is nowhere to report that.
		_ = writeJSON(a.err, errorJSON{Error: err.Error(), ExitStatus: exit.Status(err), Hint: hint})
		return
	}
	// Lines after the first are indented, so that no text can pass for another message.
	fmt.Fprintf(a.err, "feedctl: %s\n", strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "\n  "))
	if hint != "" {
		fmt.Fprintf(a.err, "Try: %s\n", hint)
	}
}

// progress shows the status of a command until it prints its result, or ends.
func (a *app) progress(verb string, read func() progress.Status) {
	d := progress.Display{Log: a.log}
	if a.terminal {
		d.Terminal = a.console
	}
	a.stopProgress = d.Show(verb, read)
}

// atEnd has a resource closed when the command ends, before those that were opened earlier.
func (a *app) atEnd(close func() error, what string) {
	a.closers = append(a.closers, func() error {
		if err := close(); err != nil {
			return fmt.Errorf("close %s: %w", what, err)
		}
		return nil
	})
}

// end closes the resources of a command that ends with err. It returns err, joined with the
// errors of closing.
func (a *app) end(err error) error {
	a.stopProgress()
	for _, close := range slices.Backward(a.closers) {
		if e := close(); e != nil {
			err = errors.Join(err, e)
		}
	}
	a.closers = nil
	return err
}
