package kinto

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/feedctl/feedctl/kinto"
	"github.com/feedctl/feedctl/sink"
)

// Expect makes the batch replace the record of a key only if the record still has the stamp of the given row,
// or still does not exist if the row is nil. The batch leaves the position as it is. Commit returns a
// [*sink.ChangedError] with the keys of records that have another stamp now, which are left alone. The other
// records are written nevertheless, since not all backends of Kinto have transactions. Applying them again
// does no harm.
func (t *target) Expect(_ context.Context, key string, was *sink.Row) error {
	stamp := int64(0)
	if was != nil {
		var err error
		if stamp, err = strconv.ParseInt(was.Version, 10, 64); err != nil {
			return fmt.Errorf("stamp of the record of key %q: %w", key, err)
		}
	}
	if t.expected == nil {
		t.expected = make(map[string]int64)
	}
	t.expected[key] = stamp
	return nil
}

// writeExpected writes the batch.
func (t *target) writeExpected(ctx context.Context) error {
	var changed []string // keys
	for _, s := range t.chunks {
		changes := s.last()
		if err := t.await(ctx, changes); err != nil {
			return err
		}
		some, err := t.sendExpected(ctx, changes)
		if err != nil {
			return err
		}
		changed = append(changed, some...)
	}
	if len(changed) > 0 {
		return &sink.ChangedError{Keys: changed}
	}
	return nil
}

// sendExpected writes changes until each is stored or refused, and returns the keys of those whose record is
// not as expected. The records show which changes an earlier attempt has made.
func (t *target) sendExpected(ctx context.Context, changes []*change) (changed []string, err error) {
	for n := 1; ; n++ {
		conflicts, err := t.tryExpected(ctx, changes)
		switch {
		case err == nil:
			changes = conflicts
		case isMalformed(err) && len(changes) == 1:
			t.refuse(changes[0], err)
			return changed, nil
		case isMalformed(err):
			first, err := t.sendExpected(ctx, changes[:len(changes)/2])
			if err != nil {
				return nil, err
			}
			last, err := t.sendExpected(ctx, changes[len(changes)/2:])
			return slices.Concat(changed, first, last), err
		case !kinto.Retryable(err) || n >= t.tries || t.pause(ctx, n, err) != nil:
			return nil, err
		}
		left, some, err := t.unsettled(ctx, changes)
		if changed = append(changed, some...); err != nil || len(left) == 0 {
			return changed, err
		}
		if changes = left; n >= t.tries {
			return nil, fmt.Errorf("write record %q: %w", left[0].id, errBusy)
		}
	}
}

// tryExpected sends changes once, and returns those whose record is not as expected. After an error, none or
// all of the changes may have been made.
func (t *target) tryExpected(ctx context.Context, changes []*change) (conflicts []*change, err error) {
	if err := t.load(ctx); err != nil {
		return nil, err
	}
	requests := make([]kinto.BatchRequest, len(changes))
	var created []string
	for i, c := range changes {
		stamp := t.expected[c.key]
		if requests[i], err = t.part(c, stamp); err != nil {
			return nil, err
		}
		if stamp == 0 && !c.deleted {
			created = append(created, c.id)
		}
	}
	answers, err := t.server.Batch(ctx, requests)
	if kinto.Retryable(err) { // it may be carried out later
		t.doubt(created)
	}
	if err != nil {
		return nil, err
	}
	for _, a := range answers { // after a conflict, what came before it may be undone, although that is answered with 201
		if kinto.Retryable(a.Err) {
			return nil, a.Err
		}
	}
	for i, c := range changes {
		switch failure := answers[i].Err; {
		case failure == nil, c.deleted && isMissing(failure):
			t.changed++
		case errors.Is(failure, kinto.ErrPreconditionFailed):
			conflicts = append(conflicts, c)
		case isMalformed(failure):
			t.refuse(c, failure)
		default:
			return nil, fmt.Errorf("write record %q: %w", c.id, failure)
		}
	}
	return conflicts, nil
}

// unsettled returns the changes that have not been made, and the keys of those whose record is neither as
// expected nor as the change makes it.
func (t *target) unsettled(ctx context.Context, changes []*change) (left []*change, changed []string, err error) {
	all, err := t.all(changes)
	if err != nil || len(all) == 0 {
		return nil, nil, err
	}
	var found map[string]stored
	err = t.retry(ctx, func(ctx context.Context) (err error) {
		found, err = t.rows(ctx, idsOf(all), true)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	for i, c := range changes {
		known := all[i].Deleted || all[i].ContentID != "" || all[i].Digest != nil
		switch is := found[c.id]; {
		case known && is.is(all[i]):
		case is.stamp != t.expected[c.key]:
			changed = append(changed, c.key)
		default:
			left = append(left, c)
		}
	}
	return left, changed, nil
}
