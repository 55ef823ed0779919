package main

import (
	"context"
	"errors"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/dir"
	"github.com/feedctl/feedctl/sink/jsonl"
	"github.com/feedctl/feedctl/sink/sqlite"
)

// openSink opens the sink that --into names.
func (a *app) openSink(ctx context.Context, spec string) (consumer.Sink, error) {
	sinks := sink.Registry{
		"-":      jsonl.Stdout(a.out),
		"jsonl":  jsonl.FromSpec,
		"dir":    dir.FromSpec,
		"sqlite": sqlite.FromSpec,
	}
	s, err := sinks.Open(ctx, spec)
	if errors.Is(err, sink.ErrSpec) {
		return nil, &usageError{err}
	}
	return s, err
}
