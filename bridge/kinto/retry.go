package kinto

import (
	"context"

	"github.com/feedctl/feedctl/bridge"
)

// Retry tries to publish the records in quarantine. Those that no longer exist are removed
// from the quarantine. Another bridge may publish to the feed at the same time.
func (b *Bridge) Retry(ctx context.Context) (bridge.RetryReport, error) {
	return b.core.Retry(ctx, func(bridge.Quarantined) int { return fetchIDs }, func(core *bridge.Run, at bridge.Checkpoint, things []bridge.Quarantined) (bridge.Source, error) {
		s, err := b.newRun(core, at)
		if err != nil {
			return nil, err
		}
		var ids []string
		for _, thing := range things {
			ids = append(ids, thing.ID)
		}
		return &again{s, ids}, nil
	})
}

// An again is a source that reads the records in quarantine once more.
type again struct {
	*run
	ids []string
}

// Read sends one piece.
func (a *again) Read(ctx context.Context, pieces chan<- *bridge.Piece) error {
	p := a.at.piece(a.at)
	p.Publish = func(ctx context.Context) error {
		return a.confirmGone(ctx, a.ids, func(string) error { return nil })
	}
	return a.send(ctx, pieces, p)
}
