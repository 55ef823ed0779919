// Package sinks opens a sink of any kind by its name, such as "jsonl:out.jsonl" or
// "postgres://db/shop?table=zones". A program that uses only one kind of sink needs only the package of
// that sink; a program with its own tables needs only sink/pgxsink or sink/sqlsink.
package sinks

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/feedctl/feedctl/consumer"
	couch "github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/internal/suggest"
	client "github.com/feedctl/feedctl/kinto"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/couchdb"
	"github.com/feedctl/feedctl/sink/dir"
	"github.com/feedctl/feedctl/sink/jsonl"
	"github.com/feedctl/feedctl/sink/kinto"
	"github.com/feedctl/feedctl/sink/postgres"
	"github.com/feedctl/feedctl/sink/sqlite"
)

// Options configure what is not part of a sink's name.
type Options struct {
	// Output is where the sink "-" writes. If Output is nil, there is no such sink.
	Output io.Writer
	// CouchDB configures the connection to CouchDB; the URL is in the name.
	CouchDB couch.Config
	// Kinto configures the connection to Kinto; the URL is in the name.
	Kinto client.Config
	// Logger receives warnings about quarantined entities; nil discards them.
	Logger *slog.Logger
}

// Open opens the sink that spec names: see package sink. The error matches [sink.ErrSpec] if the
// name is wrong, [sink.ErrLocked] if another consumer has the sink open, and
// [sink.ErrUnavailable] if its server is not available at the moment.
func Open(ctx context.Context, spec string, o Options) (consumer.Sink, error) {
	r := sink.Registry{
		"couchdb":    couchdb.Opener(o.CouchDB),
		"dir":        dir.FromSpec,
		"jsonl":      jsonl.FromSpec,
		"kinto":      kinto.Opener(o.Kinto),
		"postgres":   postgres.Opener(o.Logger),
		"postgresql": postgres.Opener(o.Logger),
		"sqlite":     sqlite.FromSpec,
	}
	if o.Output != nil {
		r["-"] = jsonl.Stdout(o.Output)
	}
	return r.Open(ctx, spec)
}

// Check returns an error that matches [sink.ErrSpec] if a name is wrong, as far as that can be
// known without opening the sink.
func Check(s sink.Spec) error {
	switch s.Scheme {
	case "-":
		return nil
	case "dir", "jsonl":
		return s.CheckParams()
	case "sqlite":
		return s.CheckParams("table")
	case "couchdb":
		return s.CheckParams("name")
	case "kinto":
		return kinto.Check(s)
	case "postgres", "postgresql":
		return postgres.Check(s)
	}
	known := []string{"couchdb", "dir", "jsonl", "kinto", "postgres", "sqlite"}
	return fmt.Errorf("%w: unknown scheme %q: known are %s%s", sink.ErrSpec, s.Scheme, strings.Join(known, ", "), suggest.DidYouMean(s.Scheme, known, ""))
}

// Backfills reports whether the sink that a spec names is a [consumer.Backfiller], which can be filled
// newest first.
func Backfills(s sink.Spec) bool {
	return s.Scheme == "sqlite" || s.Scheme == "postgres" || s.Scheme == "postgresql"
}

// Standings reads the positions of the consumers of the sink that spec names. It creates nothing, and
// works while a consumer has the sink open. The error matches [sink.ErrSpec] if the sink stores no
// position.
func Standings(ctx context.Context, spec string, o Options) ([]sink.Standing, error) {
	s, err := sink.ParseSpec(spec)
	if err != nil {
		return nil, err
	}
	switch s.Scheme {
	case "couchdb":
		return couchdb.Standings(o.CouchDB)(ctx, s)
	case "dir":
		return dir.Standings(ctx, s)
	case "jsonl":
		return jsonl.Standings(ctx, s)
	case "kinto":
		return kinto.Standings(o.Kinto)(ctx, s)
	case "postgres", "postgresql":
		return postgres.Standings(ctx, s)
	case "sqlite":
		return sqlite.Standings(ctx, s)
	}
	return nil, fmt.Errorf("%w: sink %q has no position: want jsonl:, dir:, sqlite:, postgres:, couchdb: or kinto:", sink.ErrSpec, sink.Redact(spec))
}
