package sinks

import (
	"context"
	"fmt"

	"github.com/feedctl/feedctl/reconcile"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/postgres"
	"github.com/feedctl/feedctl/sink/sqlite"
)

// Reconciles returns the reason if what the sink that a spec names has cannot be compared with its feed,
// or not repaired. It matches [sink.ErrSpec].
func Reconciles(s sink.Spec, repair bool) error {
	switch s.Scheme {
	case "sqlite", "postgres", "postgresql":
		return nil
	}
	return fmt.Errorf("%w: sink %s: cannot be compared with a feed: want sqlite: or postgres:", sink.ErrSpec, sink.Redact(s.String()))
}

// OpenContents opens what the sink that spec names has, to compare it with its feed. It creates nothing,
// and a consumer may have the sink open. The error matches [sink.ErrSpec] if the name is wrong.
func OpenContents(ctx context.Context, spec string, _ Options) (reconcile.Contents, error) {
	s, err := sink.ParseSpec(spec)
	if err != nil {
		return nil, err
	}
	switch s.Scheme {
	case "sqlite":
		return sqlite.OpenContents(ctx, s)
	case "postgres", "postgresql":
		return postgres.OpenContents(ctx, s)
	}
	return nil, Reconciles(s, false)
}
