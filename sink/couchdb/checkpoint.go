package couchdb

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/feed"
)

// ErrTaken means that another consumer has opened the same sink.
var ErrTaken = errors.New("another consumer has taken the sink over: stop one of the two, or give them different names")

// ErrLost means that the database was deleted, replaced or restored while the sink was open.
var ErrLost = errors.New("the checkpoint is missing, or older than before: the database was deleted, replaced or restored; start the consumer again to write what is missing")

// A checkpoint is the document _local/feedctl-sink-NAME.
type checkpoint struct {
	Rev string `json:"_rev,omitempty"`
	// Owner is the random name of the sink that owns the document, and Writes the number of times
	// that the document was written: together they identify its state.
	Owner  string `json:"owner"`
	Writes int64  `json:"writes"`
	// Instance is the [couchdb.Info.Instance] of the database.
	Instance string `json:"instance,omitempty"`
	// Empty means that the database had no documents when the consumer began. So the document of an
	// entity after Position was written by Pending, or not at all.
	Empty bool `json:"empty,omitempty"`
	// Position is the position of the documents, except for Pending.
	Position feed.Position `json:"position"`
	Pending  *pending      `json:"pending,omitempty"`
	// Step is the name of the last step that is done.
	Step string `json:"step,omitempty"`
	// Totals of all runs, named as in a replication log.
	Written  int64 `json:"docs_written"`
	Failures int64 `json:"doc_write_failures"`
	// Refused lists the last documents that were refused.
	Refused []consumer.Refusal `json:"refused,omitempty"`
}

// A pending is a step that has begun. The next consumer to open the sink completes it.
type pending struct {
	Step     string        `json:"step"`
	Position feed.Position `json:"position"` // when it is done
	// Parts is the number of documents in the log of the step. If it is 0, the step is the change of
	// Single.
	Parts  int    `json:"parts,omitempty"`
	Single *write `json:"single,omitempty"` // without its document
}

// maxRefused is how many refusals a checkpoint keeps.
const maxRefused = 20

func (t *target) local() string { return "feedctl-sink-" + t.name }

// own reads the checkpoint, and makes the sink its owner the first time.
func (t *target) own(ctx context.Context) error {
	if t.owned {
		return t.load(ctx)
	}
	info, err := t.db.Info(ctx)
	if err != nil {
		return err
	}
	stored, err := t.read(ctx)
	begins := errors.Is(err, couchdb.ErrNotFound)
	if err != nil && !begins {
		return fmt.Errorf("read checkpoint: %w", err)
	}
	if isOther(stored.Instance, info.Instance()) {
		// The database was deleted and created again while it was being written.
		t.log.WarnContext(ctx, "checkpoint is from an earlier database of this name, starting from the beginning", "database", t.db.URL())
		stored, begins = checkpoint{Rev: stored.Rev}, true
	}
	if begins {
		stored.Empty = info.Count != nil && *info.Count == 0
	}
	t.found = stored.Writes
	stored.Owner, stored.Instance = rand.Text(), info.Instance()
	t.state = stored
	err = t.save(ctx, func(*checkpoint) {})
	t.owned = err == nil
	return err
}

// isOther reports whether two instances are known to be different. Servers that do not
// identify instances send "" or "0".
func isOther(was, is string) bool { return was != "" && is != "" && is != "0" && was != is }

func (t *target) read(ctx context.Context) (c checkpoint, err error) {
	err = t.db.Local(ctx, t.local(), &c)
	return c, err
}

// load reads the checkpoint and verifies that this sink owns it.
func (t *target) load(ctx context.Context) error {
	stored, err := t.read(ctx)
	switch {
	case errors.Is(err, couchdb.ErrNotFound):
		return ErrLost
	case err != nil:
		return fmt.Errorf("read checkpoint: %w", err)
	case stored.Owner != t.state.Owner && stored.Writes > t.found:
		return ErrTaken
	case stored.Owner != t.state.Owner, stored.Writes < t.state.Writes: // another consumer would have increased Writes
		return ErrLost
	}
	t.state = stored
	return nil
}

// save changes the checkpoint. CouchDB, unlike PouchDB, does not compare revisions in
// _local, so the caller must check the owner first.
func (t *target) save(ctx context.Context, change func(*checkpoint)) error {
	c := t.state
	change(&c)
	c.Writes++
	rev, err := t.db.PutLocal(ctx, t.local(), c)
	if errors.Is(err, couchdb.ErrConflict) {
		// Written by another consumer, or by an earlier attempt of this request.
		stored, failed := t.read(ctx)
		if failed != nil {
			return errors.Join(fmt.Errorf("write checkpoint: %w", err), failed)
		}
		if stored.Owner != c.Owner || stored.Writes != c.Writes {
			return ErrTaken
		}
		rev, err = stored.Rev, nil
	}
	if err != nil {
		return fmt.Errorf("write checkpoint: %w", err)
	}
	c.Rev = rev
	t.state = c
	return nil
}
