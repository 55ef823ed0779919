package sinks

import (
	"context"
	"fmt"
	"slices"

	"github.com/feedctl/feedctl/reconcile"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/couchdb"
	"github.com/feedctl/feedctl/sink/dir"
	"github.com/feedctl/feedctl/sink/jsonl"
	"github.com/feedctl/feedctl/sink/kinto"
	"github.com/feedctl/feedctl/sink/postgres"
	"github.com/feedctl/feedctl/sink/sqlite"
)

var (
	// ErrRevisions means that a CouchDB database has revisions of documents without Content-IDs, so
	// [OpenContents] has nothing to compare.
	ErrRevisions = couchdb.ErrRevisions
	// ErrChanged means that the consumer wrote to a CouchDB database while the database was being read.
	ErrChanged = couchdb.ErrChanged
)

// HasContents reports whether [OpenContents] can open the sink that a spec names. This is the case if
// the sink has a state for each key, to be compared with the feed's.
func HasContents(s sink.Spec) bool {
	return slices.Contains([]string{"couchdb", "dir", "kinto", "postgres", "postgresql", "sqlite"}, s.Scheme)
}

// CheckReconcile returns an error that matches [sink.ErrSpec] if the sink that a spec names cannot be
// compared with its feed or, if repair is set, cannot be repaired.
func CheckReconcile(s sink.Spec, repair bool) error {
	switch {
	case HasContents(s), s.Scheme == "jsonl" && !repair:
		return nil
	case s.Scheme == "jsonl":
		return fmt.Errorf("%w: sink %s: a log cannot be repaired: consume the feed into a new file", sink.ErrSpec, s.String())
	}
	return fmt.Errorf("%w: sink %s: cannot be compared with a feed: want sqlite:, postgres:, couchdb:, kinto:, dir: or jsonl:", sink.ErrSpec, sink.Redact(s.String()))
}

// OpenContents opens the contents of the sink that spec names, to compare them with its feed. It creates
// nothing, and works while a consumer has the sink open. The error matches [sink.ErrSpec] if the name is
// wrong.
func OpenContents(ctx context.Context, spec string, o Options) (reconcile.Contents, error) {
	s, err := sink.ParseSpec(spec)
	if err != nil {
		return nil, err
	}
	switch s.Scheme {
	case "couchdb":
		return couchdb.OpenContents(ctx, o.CouchDB, s)
	case "dir":
		return dir.OpenContents(ctx, s)
	case "kinto":
		return kinto.OpenContents(ctx, o.Kinto, s)
	case "sqlite":
		return sqlite.OpenContents(ctx, s)
	case "postgres", "postgresql":
		return postgres.OpenContents(ctx, s)
	}
	return nil, fmt.Errorf("%w: sink %s has no state for each key", sink.ErrSpec, sink.Redact(s.String()))
}

// OpenLog opens the log that spec names, to compare it with its feed, as [OpenContents] does. The result
// is nil if the sink is not a log.
func OpenLog(ctx context.Context, spec string) (reconcile.Log, error) {
	s, err := sink.ParseSpec(spec)
	if err != nil || s.Scheme != "jsonl" {
		return nil, err
	}
	log, err := jsonl.OpenContents(ctx, s)
	if err != nil {
		return nil, err
	}
	return log, nil
}
