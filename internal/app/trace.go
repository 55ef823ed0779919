package app

import (
	"github.com/spf13/cobra"

	"github.com/feedctl/feedctl/internal/cli"
	"github.com/feedctl/feedctl/internal/exit"
	"github.com/feedctl/feedctl/internal/tracing"
)

const traceUsage = "send traces to the OpenTelemetry collector at this `URL`, by OTLP over HTTP, such as http://127.0.0.1:4318"

// openTracer makes a command record traces if --trace is set.
func (a *App) openTracer(c *cobra.Command) error {
	if a.trace == "" {
		return nil
	}
	tracer, err := tracing.Open(c.Context(), a.trace, cli.ThisVersion().Version, a.Log)
	if err != nil {
		return exit.Usagef("--trace: %w", err)
	}
	a.AtEnd(tracer.Close, "traces") // the tracer is closed after everything that is traced
	a.Transport = tracer.Transport(a.Transport)
	c.SetContext(tracing.NewContext(c.Context(), tracer))
	return nil
}

// inBatches lists the commands that may run for ever. In these, each batch and each request is a trace of
// its own; for any other command, everything that it does is one trace.
var inBatches = map[string]bool{
	"bridge couchdb": true, "bridge kinto": true, "consume": true, "copy": true, "jobs standalone": true, "jobs worker": true,
	"outbox run": true, "publish": true, "serve": true, "tail": true,
}

// traced runs a command, in a span if the command records traces and is not in inBatches.
func traced(c *cobra.Command, run func() error) error {
	tracer := tracing.FromContext(c.Context())
	if tracer == nil || inBatches[cli.Name(c)] {
		return run()
	}
	ctx, end := tracer.Command(c.Context(), c.CommandPath())
	c.SetContext(ctx)
	err := run()
	end(err)
	return err
}
