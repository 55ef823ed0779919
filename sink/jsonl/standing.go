package jsonl

import (
	"context"
	"fmt"

	"github.com/feedctl/feedctl/sink"
)

// Standings reads the position of the consumer of the sink that s names. It creates nothing,
// and a consumer may have the sink open.
func Standings(_ context.Context, s sink.Spec) ([]sink.Standing, error) {
	if err := s.CheckParams(); err != nil {
		return nil, err
	}
	r, err := readRecord(s.Path)
	if err != nil {
		return nil, fmt.Errorf("read sink %s: %w", s.String(), err)
	}
	return []sink.Standing{{Position: r.Position}}, nil
}
