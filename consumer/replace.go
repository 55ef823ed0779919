package consumer

import (
	"context"
	"errors"
	"fmt"
)

// ErrNoReplacement is returned by [Replacement.RemoveOthers] if the notes of the replacement are missing.
var ErrNoReplacement = errors.New("the sink's notes about the snapshot are missing, so nothing is removed: use an empty sink")

// A Replacer is a [Sink] whose data a snapshot can replace, as [GapSnapshot] requires: at the end, the
// sink has the keys of the snapshot and no others. It keeps a note of each key of the snapshot together
// with its data, so that a replacement that was interrupted can be continued.
type Replacer interface {
	Sink
	// BeginReplace starts a batch like Begin, for entities of the snapshot. If begins is set, this is the
	// first batch of the replacement, and its commit removes the notes of earlier replacements.
	BeginReplace(ctx context.Context, begins bool) (Replacement, error)
}

// A Replacement is a [Batch] of a [Replacer]. It keeps a note of the key of each entity that is applied.
// Rolling the batch back also undoes its notes.
type Replacement interface {
	Batch
	// RemoveOthers removes the data of all keys without a note, and then all notes. Nothing is applied to
	// the batch after this call. It returns [ErrNoReplacement] if the replacement was never begun, rather
	// than removing everything.
	RemoveOthers(ctx context.Context) error
	// Removed returns how many keys RemoveOthers has removed. It is known after Commit.
	Removed() int64
}

// replaces reports whether a snapshot can replace the data of the job's sink.
func (j *Job) replaces() bool {
	_, ok := j.Sink.(Replacer)
	return ok
}

// fromSnapshot returns the Start at the snapshot that is used after a gap.
func (r *run) fromSnapshot() Start {
	start := FromSnapshot(r.SnapshotURL)
	if start.replaces = r.replaces(); !start.replaces {
		r.Logger.Warn("the sink keeps what was deleted in the gap, since a snapshot cannot replace its data; \"feedctl reconcile --repair\" removes it from CouchDB and Kinto")
	}
	return start
}

// removeOthers removes from the sink the keys that are not in the snapshot, in the batch that moves the
// position past the snapshot.
func (r *run) removeOthers(ctx context.Context) error {
	b := &r.batch
	if b.Batch == nil {
		if err := r.begin(ctx); err != nil {
			return err
		}
	}
	if err := b.replacement.RemoveOthers(ctx); err != nil {
		return errors.Join(fmt.Errorf("remove what was deleted in the gap: %w", err), b.rollback(ctx))
	}
	r.replacing = false
	return nil
}

// removed counts the keys removed by a batch, after the batch has been committed.
func (r *run) removed(ctx context.Context, p Replacement) {
	if p == nil || r.replacing {
		return
	}
	n := p.Removed()
	r.stats.Removed += n
	r.Logger.InfoContext(ctx, "removed what was deleted in the gap", "keys", n)
}
