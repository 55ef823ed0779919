package couchdb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/sink"
)

// Standings returns a function that reads the position of the consumer named by a sink. Unlike
// opening the sink, that writes nothing, and works while a consumer has it open.
func Standings(c couchdb.Config) func(context.Context, sink.Spec) ([]sink.Standing, error) {
	return func(ctx context.Context, s sink.Spec) ([]sink.Standing, error) {
		if err := s.CheckParams("name"); err != nil {
			return nil, err
		}
		config := c
		config.URL, config.Attempts = s.Path, 1
		name := cmp.Or(s.Params.Get("name"), DefaultName)
		db, err := couchdb.Open(config)
		if err != nil {
			return nil, fmt.Errorf("read sink %s: %w: %w", sink.Redact(s.String()), sink.ErrSpec, err)
		}
		stored, err := (&target{db: db, name: name}).read(ctx)
		if errors.Is(err, couchdb.ErrNotFound) {
			err = fmt.Errorf("there is no consumer %q, or no database: %w", name, fs.ErrNotExist)
		}
		if err != nil {
			return nil, fmt.Errorf("read sink couchdb:%s: %w", db.URL(), err)
		}
		return []sink.Standing{{Name: name, Position: stored.Position}}, nil
	}
}
