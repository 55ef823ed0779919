package dir

import (
	"context"
	"fmt"

	"github.com/feedctl/feedctl/sink"
)

// Standings reads where the consumer of the sink that s names stands. Unlike to open it, that
// makes nothing, and can be done while a consumer has it open.
func Standings(_ context.Context, s sink.Spec) ([]sink.Standing, error) {
	if err := s.CheckParams(); err != nil {
		return nil, err
	}
	h, err := (&target{path: s.Path}).readRecord(nil)
	if err != nil {
		return nil, fmt.Errorf("read sink %s: %w", s.String(), err)
	}
	return []sink.Standing{{Position: h.Position}}, nil
}
