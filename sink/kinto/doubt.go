package kinto

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/feedctl/feedctl/internal/backoff"
)

// A server may carry out a request late, after its client has given up, been killed, or been replaced by
// another. The conditions of the request keep it from changing what has been written since. But it may create
// a record that has been deleted since. So records that such a request may create are deleted only after
// retryBudget.deleteAfter. The state keeps their ids for the next consumer.

// doubt remembers records that a request may still create.
func (t *target) doubt(ids []string) {
	until := time.Now().Add(t.deleteAfter)
	for _, id := range ids {
		t.doubts[id] = until
	}
}

// doubtful returns the ids of the records that a request may still create.
func (t *target) doubtful() []string {
	now := time.Now()
	maps.DeleteFunc(t.doubts, func(_ string, until time.Time) bool { return !until.After(now) })
	return slices.Sorted(maps.Keys(t.doubts))
}

// await waits until no earlier request can still create any of the records that changes delete.
func (t *target) await(ctx context.Context, changes []*change) error {
	var until time.Time
	for _, c := range changes {
		if at := t.doubts[c.id]; c.deleted && at.After(until) {
			until = at
		}
	}
	return backoff.Sleep(ctx, time.Until(until))
}
