// Command feedctl publishes, serves, consumes, checks and prunes feeds and
// snapshots as the datareplication.io specification describes them.
//
// "feedctl help" lists its commands; the help of each has examples and its exit
// status. What commands print with --json is a contract: see the types in
// json.go and in package task.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/feedctl/feedctl/internal/app"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/memlimit"
)

// memoryLimit is the soft memory limit of the Go runtime, in bytes, as long as the memory in use is
// well below it. Together with the rest of the memory of a process (its code, SQLite's cache), it
// fits into 64 MiB.
const memoryLimit = 29 << 20

func main() {
	if os.Getenv("GOMEMLIMIT") == "" {
		memlimit.Adapt(memoryLimit)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go interrupt(signals, cancel)
	os.Exit(run(ctx, os.Args[1:], app.OSStreams()))
}

// interrupt cancels the command on the first SIGINT or SIGTERM, so that it can
// finish or undo what it is doing, and leaves the second signal to the system's default, which
// kills the process.
func interrupt(signals <-chan os.Signal, cancel context.CancelCauseFunc) {
	cause := exit.ErrInterrupted
	if <-signals == syscall.SIGTERM {
		cause = exit.ErrTerminated
	}
	signal.Reset(os.Interrupt, syscall.SIGTERM)
	cancel(cause)
}

// run executes one command line and returns its exit status.
func run(ctx context.Context, args []string, s app.Streams) int {
	a := app.New(s)
	return a.Run(ctx, newRoot(a), args)
}
