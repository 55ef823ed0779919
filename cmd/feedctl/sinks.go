package main

import (
	"context"
	"errors"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/dir"
	"github.com/feedctl/feedctl/sink/jsonl"
	"github.com/feedctl/feedctl/sink/postgres"
	"github.com/feedctl/feedctl/sink/sqlite"
)

// openSink opens the sink that --into names.
func (a *app) openSink(ctx context.Context, spec string) (consumer.Sink, error) {
	sinks := sink.Registry{
		"-":          jsonl.Stdout(a.out),
		"jsonl":      jsonl.FromSpec,
		"dir":        dir.FromSpec,
		"sqlite":     sqlite.FromSpec,
		"postgres":   postgres.Opener(a.log),
		"postgresql": postgres.Opener(a.log),
	}
	s, err := sinks.Open(ctx, spec)
	if errors.Is(err, sink.ErrSpec) {
		return nil, &usageError{err}
	}
	return s, err
}

// quarantining is a sink that puts aside what does not fit.
type quarantining interface{ Quarantined() int64 }

// columnsOf adds --columns and --strict to the sink that --into names.
func (f *consumeFlags) columnsOf() (spec string, err error) {
	if f.columns == "" && !f.strict {
		return f.into, nil
	}
	s, err := sink.ParseSpec(f.into)
	if err != nil {
		return "", &usageError{err}
	}
	if s.Scheme != "postgres" && s.Scheme != "postgresql" {
		return "", usagef("--columns and --strict are for sinks in PostgreSQL")
	}
	if f.columns != "" {
		s.Params.Add("columns", f.columns)
	}
	if f.strict {
		s.Params.Set("strict", "true")
	}
	return s.String(), nil
}
