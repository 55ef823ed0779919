package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/digest"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/sink"
)

// A Guard is a batch that can be made to fail if rows have changed.
type Guard interface {
	consumer.Batch
	// Expect makes the batch fail with a [*sink.ChangedError], now or when it is committed, unless the key
	// still has the given row, or still has none if the row is nil. Expect is called before the key is
	// applied. The error matches [errors.ErrUnsupported] if the sink cannot check its rows.
	Expect(ctx context.Context, key string, was *sink.Row) error
}

// Limits of the batches of a repair.
const (
	batchRows  = 500
	batchBytes = 4 << 20 // of bodies in memory
)

// repair makes the changes that compare has recorded, and compares the range of all repaired keys again.
func (r *run) repair(ctx context.Context, report *Report) error {
	of, deletes, err := r.scratch.mended()
	if err != nil {
		return err
	}
	if r.MaxDeletes != nil && r.MaxDeletes(deletes, report.Rows) {
		return fmt.Errorf("%w: %d of %d", ErrDeletes, deletes, report.Rows)
	}
	at, err := r.Sink.Position(ctx)
	if err != nil {
		return err
	}
	if at.ContentID != report.Position.ContentID || !at.Committed.Equal(report.Position.Committed) {
		return fmt.Errorf("the position of the sink moved from %s to %s while it was compared", report.Position.ContentID, at.ContentID)
	}
	report.Repair = &Repaired{}
	m := &mender{run: r, at: at, done: report.Repair}
	if err := m.all(ctx); err != nil {
		return err
	}
	r.all, r.repairs, r.Found = of, false, nil
	again := Report{Digest: report.Digest, Position: report.Position}
	if err := r.compare(ctx, &again); err != nil {
		return fmt.Errorf("compare again what was repaired: %w", err)
	}
	report.Repair.Left = again.Counts
	return nil
}

// A mender applies the changes of a repair in batches.
type mender struct {
	*run
	at    feed.Position // of the sink; a repair does not change it
	done  *Repaired
	batch []change
	bytes int64
}

// A change is a mend together with the entity to apply.
type change struct {
	mend
	entity *feed.Entity
}

// all applies all changes: first those whose place in the feed is not known, in the order of their keys,
// from the snapshot; then those that are read from their place in the feed; then the deletions.
func (m *mender) all(ctx context.Context) error {
	lost := newSnapshotSearch(m.run)
	for one, err := range m.scratch.mends(digest.All) {
		if err != nil {
			return err
		}
		e := &feed.Entity{Operation: feed.Delete, ContentLocation: feed.EncodeKey(one.key), LastModified: m.at.LastModified}
		if one.state != deleted {
			if e, err = m.fetch(ctx, one.want); err == nil && e == nil {
				e, err = lost.find(ctx, one.want)
			}
			if err != nil {
				return err
			}
		}
		if e == nil {
			m.done.Lost++
			if err := m.failed(one.key, "neither the feed nor its snapshot has the state that the digest covers: make a new digest with a snapshot"); err != nil {
				return err
			}
			continue
		}
		if err := m.add(ctx, change{one, e}); err != nil {
			return err
		}
	}
	return m.flush(ctx)
}

func (m *mender) failed(key, why string) error {
	if m.Found == nil {
		return nil
	}
	return m.Found(Line{Failed, key, why})
}

func (m *mender) add(ctx context.Context, c change) error {
	size := int64(len(c.entity.Body))
	if len(m.batch) == batchRows || m.bytes+size > batchBytes {
		if err := m.flush(ctx); err != nil {
			return err
		}
	}
	m.batch, m.bytes = append(m.batch, c), m.bytes+size
	if c.entity.Stream != nil { // a temporary file, one at a time
		return m.flush(ctx)
	}
	return nil
}

// flush applies the batch without the rows that have changed.
func (m *mender) flush(ctx context.Context) error {
	defer func() { closeAll(m.batch); m.batch, m.bytes = nil, 0 }()
	for len(m.batch) > 0 {
		err := m.apply(ctx)
		var changed *sink.ChangedError
		if err == nil {
			return nil
		}
		if !errors.As(err, &changed) || len(changed.Keys) == 0 {
			return fmt.Errorf("repair: %w", err)
		}
		if _, err := m.Sink.Position(ctx); err != nil { // recovers the sink
			return err
		}
		m.batch = slices.DeleteFunc(m.batch, func(c change) bool { return slices.Contains(changed.Keys, c.key) })
		m.done.Changed += int64(len(changed.Keys))
		for _, key := range changed.Keys {
			if err := m.failed(key, "its row has changed since it was compared, and was left alone"); err != nil {
				return err
			}
		}
	}
	return nil
}

// apply applies the batch in one transaction, which leaves the position as it is.
func (m *mender) apply(ctx context.Context) error {
	b, err := m.Sink.Begin(ctx)
	if err != nil {
		return err
	}
	if err := m.applyTo(ctx, b); err != nil {
		return errors.Join(err, b.Rollback(context.WithoutCancel(ctx)))
	}
	for _, c := range m.batch {
		if c.state == deleted {
			m.done.Deleted++
		} else {
			m.done.Written++
		}
	}
	m.progress.Mended = m.done.Written + m.done.Deleted
	m.report()
	return nil
}

func (m *mender) applyTo(ctx context.Context, b consumer.Batch) error {
	g, ok := b.(Guard)
	if !ok {
		return ErrGuard
	}
	for _, c := range m.batch {
		if err := rewind(c.entity); err != nil {
			return err
		}
		err := g.Expect(ctx, c.key, c.was)
		if errors.Is(err, errors.ErrUnsupported) {
			return ErrGuard
		}
		if err == nil {
			err = g.Apply(ctx, c.entity)
		}
		if err != nil {
			return err
		}
	}
	return g.Commit(ctx, m.at)
}
