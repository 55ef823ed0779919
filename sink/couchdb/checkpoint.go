package couchdb

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/feed"
)

// ErrTaken is returned when another consumer has opened the same sink.
var ErrTaken = errors.New("another consumer has taken the sink over: stop one of the two, or give them different names")

// ErrLost is returned when the database is not the one any more that a sink has
// opened, or not in the state any more that the sink has left it in.
var ErrLost = errors.New("the checkpoint is gone, or older than it was: the database was deleted, replaced or restored; start again, and what it lacks is written anew")

// A checkpoint is the document _local/feedctl-sink-NAME.
type checkpoint struct {
	Rev string `json:"_rev,omitempty"`
	// Owner is a random name of the sink that has it, and Writes the number of
	// times that the document was written: together they name its state.
	Owner  string `json:"owner"`
	Writes int64  `json:"writes"`
	// Instance is [couchdb.Info.Instance] of the database that it is about.
	Instance string `json:"instance,omitempty"`
	// Position is what the documents are at, once Pending is done.
	Position feed.Position `json:"position"`
	Pending  *pending      `json:"pending,omitempty"`
	// Step names the last step that is done.
	Step string `json:"step,omitempty"`
	// The numbers of all runs, named as in a replication log.
	Written  int64 `json:"docs_written"`
	Failures int64 `json:"doc_write_failures"`
	// Refused are the last documents that were refused.
	Refused []consumer.Refusal `json:"refused,omitempty"`
}

// A pending step has been begun. It is ended by whoever opens the sink next.
type pending struct {
	Step     string        `json:"step"`
	Position feed.Position `json:"position"` // when it is done
	// Parts is how many documents the log of the step has: the changes are
	// there. 0: the step is the one change of Single.
	Parts  int     `json:"parts,omitempty"`
	Single *single `json:"single,omitempty"`
}

// A single change is written in one request, so it is done or not.
type single struct {
	ID        string `json:"id"`
	ContentID string `json:"content_id,omitempty"`
	Deleted   bool   `json:"deleted,omitempty"`
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
	if err != nil && !errors.Is(err, couchdb.ErrNotFound) {
		return fmt.Errorf("read checkpoint: %w", err)
	}
	if isOther(stored.Instance, info.Instance()) {
		// It was written just when the database was deleted and created again.
		t.log.WarnContext(ctx, "the checkpoint is of another database of this name, beginning anew", "database", t.db.URL())
		stored = checkpoint{Rev: stored.Rev}
	}
	t.found = stored.Writes
	stored.Owner, stored.Instance = rand.Text(), info.Instance()
	t.state = stored
	err = t.save(ctx, func(*checkpoint) {})
	t.owned = err == nil
	return err
}

// isOther reports whether a database is known to be another one. Servers that do not
// tell have "" or "0".
func isOther(was, is string) bool { return was != "" && is != "" && is != "0" && was != is }

func (t *target) read(ctx context.Context) (c checkpoint, err error) {
	err = t.db.Local(ctx, t.local(), &c)
	return c, err
}

// load reads the checkpoint, and makes sure that it is this sink's.
func (t *target) load(ctx context.Context) error {
	stored, err := t.read(ctx)
	switch {
	case errors.Is(err, couchdb.ErrNotFound):
		return ErrLost
	case err != nil:
		return fmt.Errorf("read checkpoint: %w", err)
	case stored.Owner != t.state.Owner && stored.Writes <= t.found: // another consumer would have counted on
		return ErrLost
	case stored.Owner != t.state.Owner:
		return ErrTaken
	case stored.Writes < t.state.Writes:
		return ErrLost
	}
	t.state = stored
	return nil
}

// save changes the checkpoint. CouchDB compares no revisions in _local, PouchDB
// does: so who is the owner is looked at before.
func (t *target) save(ctx context.Context, change func(*checkpoint)) error {
	c := t.state
	change(&c)
	c.Writes++
	rev, err := t.db.PutLocal(ctx, t.local(), c)
	if errors.Is(err, couchdb.ErrConflict) {
		// Either another has written it, or this very request that was
		// repeated.
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

// logPart returns the name of a part of the log.
func (t *target) logPart(n int) string { return fmt.Sprintf("%s-log-%d", t.local(), n) }

// A part is a document of the log.
type part struct {
	Rev    string  `json:"_rev,omitempty"`
	Step   string  `json:"step"`
	Writes []write `json:"writes"`
}

// writePart writes a part of the log, over what is there.
func (t *target) writePart(ctx context.Context, n int, p part) error {
	for len(t.parts) <= n {
		t.parts = append(t.parts, "")
	}
	p.Rev = t.parts[n]
	rev, err := t.db.PutLocal(ctx, t.logPart(n), p)
	if errors.Is(err, couchdb.ErrConflict) { // from another run, or a request that was repeated
		var stored struct {
			Rev string `json:"_rev"`
		}
		if err := t.db.Local(ctx, t.logPart(n), &stored); err != nil {
			return fmt.Errorf("read log: %w", err)
		}
		p.Rev = stored.Rev
		rev, err = t.db.PutLocal(ctx, t.logPart(n), p)
	}
	if err != nil {
		return fmt.Errorf("write log: %w", err)
	}
	t.parts[n] = rev
	return nil
}

func (t *target) readPart(ctx context.Context, n int, step string) (part, error) {
	var p part
	if err := t.db.Local(ctx, t.logPart(n), &p); err != nil {
		return p, fmt.Errorf("read log: %w", err)
	}
	if p.Step != step {
		return p, fmt.Errorf("read log: _local/%s is of step %q, not %q: the database was changed by others", t.logPart(n), p.Step, step)
	}
	return p, nil
}

// clean removes the log, of which nothing is needed any more. It does not matter if
// that fails: the next one is written over it.
func (t *target) clean() {
	if len(t.parts) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if t.load(ctx) != nil || t.state.Pending != nil {
		return // it is needed, or another's
	}
	for n, rev := range t.parts {
		err := t.db.JSON(ctx, couchdb.Request{
			Method: http.MethodDelete,
			Path:   couchdb.DocPath("_local/" + t.logPart(n)),
			Query:  url.Values{"rev": {rev}},
			Once:   true,
		}, nil)
		if err != nil {
			t.log.Debug("log is left in the database", "database", t.db.URL(), "error", err)
			return
		}
	}
}
