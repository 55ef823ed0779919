package bridge

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

// Quarantined is a revision of a document, or a row of the source's changes, that could not be
// published. It is kept in the store of the feed until a retry succeeds or it is obsolete.
type Quarantined struct {
	Name   string    `json:"name"`          // in the quarantine
	ID     string    `json:"id,omitempty"`  // of the document; empty for a row without one
	Rev    string    `json:"rev,omitempty"` // empty for a row without one
	Reason string    `json:"reason"`
	Since  time.Time `json:"since"`         // when it was put into quarantine
	Row    []byte    `json:"row,omitempty"` // the first MaxRow bytes of a malformed row, as received
	// Options and Filter are those of the bridge that put it into quarantine.
	Options json.RawMessage `json:"options,omitempty"`
	Filter  json.RawMessage `json:"filter,omitempty"`
}

// maxRow is how much of a malformed row is kept in quarantine, in bytes.
const maxRow = 4096

// quarantineName returns a name that depends only on the revision and the row.
func (q *Quarantined) quarantineName() string {
	hash := sha256.New()
	h := Version{q.ID, q.Rev}.hash()
	hash.Write(h[:])
	hash.Write(q.Row)
	return hex.EncodeToString(hash.Sum(nil)[:16])
}

func (b *Bridge) quarantineKey(name string) string {
	return layout.FeedQuarantine(b.config.Feed) + name
}

// quarantine puts a thing durably into quarantine, and reports whether it was not there before. A
// write with unknown outcome can be repeated, because the name remains the same.
func (b *Bridge) quarantine(ctx context.Context, thing Quarantined) (added bool, err error) {
	thing.Name = thing.quarantineName()
	thing.Row = thing.Row[:min(len(thing.Row), maxRow)]
	thing.Since = time.Now().UTC().Truncate(time.Second)
	data, err := json.Marshal(thing)
	if err != nil {
		return false, fmt.Errorf("encode: %w", err)
	}
	err = b.try(ctx, func() error {
		_, err := b.config.Store.Create(ctx, b.quarantineKey(thing.Name), storage.Meta{ContentType: "application/json"}, storage.Bytes(data))
		added = err == nil
		if errors.Is(err, storage.ErrExists) {
			return storage.Sync(ctx, b.config.Store, b.quarantineKey(thing.Name)) // another process may just have written it
		}
		return err
	})
	if err != nil {
		return false, fmt.Errorf("put document %q, revision %q, into quarantine: %w", thing.ID, thing.Rev, err)
	}
	return added, nil
}

// release removes a thing from quarantine.
func (b *Bridge) release(ctx context.Context, name string) error {
	err := b.try(ctx, func() error { return b.config.Store.Delete(ctx, b.quarantineKey(name)) })
	if err != nil {
		return fmt.Errorf("remove %s from quarantine: %w", name, err)
	}
	return nil
}

// try calls do, which must be idempotent, until it succeeds, the store refuses it or it has
// failed 5 times.
func (b *Bridge) try(ctx context.Context, do func() error) (err error) {
	const attempts = 5
	pauses := backoff.Backoff{Min: 100 * time.Millisecond, Max: time.Second}
	for n := 1; ; n++ {
		if err = do(); err == nil || refused(err) || ctx.Err() != nil || n == attempts || b.Sleep(ctx, pauses.After(n)) != nil {
			return err
		}
	}
}

// refused reports whether an error of a store is permanent.
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
	return func(yield func(Quarantined, error) bool) {
		for entry, err := range store.List(ctx, layout.FeedQuarantine(feed), "") {
			var thing Quarantined
			if err == nil {
				thing, err = readQuarantined(ctx, store, entry.Key)
			}
			if errors.Is(err, storage.ErrNotFound) {
				continue // removed in the meantime
			}
			if err != nil {
				yield(Quarantined{}, fmt.Errorf("list quarantine of feed %q: %w", feed, err))
				return
			}
			thing.Name = strings.TrimPrefix(entry.Key, layout.FeedQuarantine(feed))
			if !yield(thing, nil) {
				return
			}
		}
	}
}

func readQuarantined(ctx context.Context, store storage.Store, key string) (thing Quarantined, err error) {
	object, err := store.Get(ctx, key, 0, -1)
	if err != nil {
		return thing, err
	}
	data, err := io.ReadAll(object.Body)
	if err = errors.Join(err, object.Body.Close()); err == nil {
		err = json.Unmarshal(data, &thing)
	}
	if err != nil {
		err = fmt.Errorf("read %s: %w", key, err)
	}
	return thing, err
}
