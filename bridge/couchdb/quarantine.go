package couchdb

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/feedctl/feedctl/internal/backoff"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/storage"
)

// Quarantined is a revision of a document, or a row of the changes feed, that could
// not be published as it was. It is kept in the store beside the feed until it is
// retried with success, or of no interest any more.
type Quarantined struct {
	Name   string    `json:"name"`          // in the quarantine
	ID     string    `json:"id,omitempty"`  // of the document; empty for a row without one
	Rev    string    `json:"rev,omitempty"` // empty for a row without one
	Reason string    `json:"reason"`
	Since  time.Time `json:"since"`         // when it was found first
	Row    []byte    `json:"row,omitempty"` // as it was received: the first MaxRow bytes of one that makes no sense
	// Options and Filter are those of the bridge that found it, but for Filter.DocIDs.
	Options Options `json:"options,omitzero"`
	Filter  Filter  `json:"filter,omitzero"`
}

// MaxRow is how much of a row that makes no sense is kept in quarantine, in bytes.
const MaxRow = 4096

// quarantineName is the same whenever the same thing is put into quarantine.
func (q *Quarantined) quarantineName() string {
	hash := sha256.New()
	h := pair{q.ID, q.Rev}.hash()
	hash.Write(h[:])
	hash.Write(q.Row)
	return hex.EncodeToString(hash.Sum(nil)[:16])
}

// A quarantine is the quarantine of a feed in a store.
type quarantine struct {
	store storage.Store
	feed  string
	pause func(context.Context, time.Duration) error
}

func (q *quarantine) key(name string) string { return layout.FeedQuarantine(q.feed) + name }

// put is durable when it returns nil. It reports whether the thing was not there
// before. A write whose outcome is unknown is repeated: the same thing has the same
// name.
func (q *quarantine) put(ctx context.Context, thing Quarantined) (added bool, err error) {
	thing.Name = thing.quarantineName()
	thing.Row = thing.Row[:min(len(thing.Row), MaxRow)]
	thing.Since = time.Now().UTC().Truncate(time.Second)
	data, err := json.Marshal(thing)
	if err != nil {
		return false, fmt.Errorf("encode: %w", err)
	}
	err = q.try(ctx, func() error {
		_, err := q.store.Create(ctx, q.key(thing.Name), storage.Meta{ContentType: mediaJSON}, storage.Bytes(data))
		added = err == nil
		if errors.Is(err, storage.ErrExists) {
			if s, ok := storage.As[storage.Syncer](q.store); ok { // it may be another's, not yet durable
				return s.Sync(ctx, q.key(thing.Name))
			}
			return nil
		}
		return err
	})
	if err != nil {
		return false, fmt.Errorf("put document %q, revision %q, into quarantine: %w", thing.ID, thing.Rev, err)
	}
	return added, nil
}

// remove takes a thing out.
func (q *quarantine) remove(ctx context.Context, name string) error {
	err := q.try(ctx, func() error { return q.store.Delete(ctx, q.key(name)) })
	if err != nil {
		return fmt.Errorf("take %s out of quarantine: %w", name, err)
	}
	return nil
}

// try repeats what may be done twice, unless the store refuses it.
func (q *quarantine) try(ctx context.Context, do func() error) (err error) {
	const attempts = 5
	pauses := backoff.Backoff{Min: 100 * time.Millisecond, Max: time.Second}
	for n := 1; ; n++ {
		if err = do(); err == nil || refused(err) || ctx.Err() != nil || n == attempts || q.pause(ctx, pauses.After(n)) != nil {
			return err
		}
	}
}

// refused reports whether a store said no for a reason that remains.
func refused(err error) bool {
	for _, reason := range []error{storage.ErrFull, storage.ErrPermission, storage.ErrLayout, storage.ErrKey, storage.ErrUnsafe} {
		if errors.Is(err, reason) {
			return true
		}
	}
	return false
}

// List yields what is in the quarantine of a feed.
func List(ctx context.Context, store storage.Store, feed string) iter.Seq2[Quarantined, error] {
	q := quarantine{store: store, feed: feed}
	return func(yield func(Quarantined, error) bool) {
		for entry, err := range store.List(ctx, layout.FeedQuarantine(feed), "") {
			var thing Quarantined
			if err == nil {
				thing, err = q.get(ctx, entry.Key)
			}
			if errors.Is(err, storage.ErrNotFound) {
				continue // it has been taken out in the meantime
			}
			if err != nil {
				yield(Quarantined{}, fmt.Errorf("list quarantine of feed %q: %w", feed, err))
				return
			}
			if !yield(thing, nil) {
				return
			}
		}
	}
}

func (q *quarantine) get(ctx context.Context, key string) (thing Quarantined, err error) {
	object, err := q.store.Get(ctx, key, 0, -1)
	if err != nil {
		return thing, err
	}
	data, err := io.ReadAll(object.Body)
	if err = errors.Join(err, object.Body.Close()); err != nil {
		return thing, fmt.Errorf("read %s: %w", key, err)
	}
	if err := json.Unmarshal(data, &thing); err != nil {
		return thing, fmt.Errorf("read %s: %w", key, err)
	}
	thing.Name = strings.TrimPrefix(key, layout.FeedQuarantine(q.feed))
	return thing, nil
}
