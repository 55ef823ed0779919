package chain

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/page"
	"github.com/feedctl/feedctl/storage"
)

// An epochRecord is a [feed.Epoch] in the metadata of a feed's floor object.
type epochRecord struct {
	Number int64  `json:"number"`
	ID     string `json:"id"`
	Page   int64  `json:"page"`   // the newest page when the epoch began
	Last   int64  `json:"lastMs"` // Last-Modified of the last entity of that page at that time, Unix milliseconds
	Kept   bool   `json:"kept,omitempty"`
}

// identity returns the identity in a floor record.
func (r *floorRecord) identity() feed.Identity {
	i := feed.Identity{ID: r.Identity}
	if e := r.Epoch; e != nil {
		i.Epoch = feed.Epoch{Number: e.Number, ID: e.ID, Last: feed.Truncate(time.UnixMilli(e.Last).UTC()), Kept: e.Kept}
	}
	return i
}

// validIdentity reports whether the members of the record that form the feed's identity are complete.
func (r *floorRecord) validIdentity() bool {
	if r.Identity == "" {
		return r.Epoch == nil
	}
	return feed.ValidID(r.Identity) && (r.Epoch == nil || r.Epoch.Number > 0 && feed.ValidID(r.Epoch.ID))
}

// renew gives the record the identity of the next feed of this name.
func (r *floorRecord) renew() { r.Identity, r.Epoch = feed.NewID(), nil }

// ReadIdentity returns the identity of a feed, which need not have any page yet; it is zero if
// the feed has none.
func ReadIdentity(ctx context.Context, store storage.Store, name string) (feed.Identity, error) {
	r, _, err := readFloor(ctx, store, name)
	return r.identity(), err
}

// Identify gives a feed an identity if it has none, and returns its identity. A feed is
// identified before its first page is written.
func Identify(ctx context.Context, store storage.Store, name string) (feed.Identity, error) {
	for {
		r, version, err := readFloor(ctx, store, name)
		if err != nil || r.Identity != "" {
			return r.identity(), err
		}
		r.Identity = feed.NewID()
		if _, err = writeFloor(ctx, store, version, r); !overtaken(err) {
			return r.identity(), err
		}
	}
}

// NextEpoch returns the identity that [BeginEpoch] would give a feed now, with other random IDs. The
// errors are those of BeginEpoch.
func NextEpoch(ctx context.Context, store storage.Store, name string) (feed.Identity, error) {
	r, _, _, err := next(ctx, store, name)
	return r.identity(), err
}

// next returns the floor record of a feed, changed to another epoch or identity, the version of the
// stored object, and the newest page, or nil if there is none.
func next(ctx context.Context, store storage.Store, name string) (floorRecord, storage.Version, *Page, error) {
	r, version, err := readFloor(ctx, store, name)
	if err == nil && r.Deleting {
		err = fmt.Errorf("feed %q: %w", name, ErrDeleting)
	}
	if err != nil {
		return floorRecord{}, "", nil, err
	}
	newest, err := NewReader(store, name).Newest(ctx)
	switch {
	case errors.Is(err, ErrNoFeed) && (r.Identity != "" || r.Deleted):
		r.renew()
	case err != nil:
		return floorRecord{}, "", nil, err
	default:
		r.begin(newest, false)
	}
	return r, version, newest, nil
}

// BeginEpoch begins a new epoch of a feed after its store was restored to an older state, and returns
// the feed's identity. It may be repeated: consumers that have read only what the feed still has
// continue, and all others get an error.
//
// The floor object is written first, with one conditional write. Then the newest page is closed if it
// is open, so that the epoch begins with a new page: a reader that requests that page reads the floor.
//
// A feed without pages has nothing in common with what it was: it gets another ID instead. The
// error may match [ErrDeleting], or [ErrNoFeed] if the feed has neither pages nor an identity.
func BeginEpoch(ctx context.Context, store storage.Store, name string) (feed.Identity, error) {
	for {
		r, version, newest, err := next(ctx, store, name)
		if err != nil {
			return feed.Identity{}, err
		}
		_, err = writeFloor(ctx, store, version, r)
		if err == nil && newest != nil {
			err = closePage(ctx, store, newest)
		}
		if !overtaken(err) {
			return r.identity(), err
		}
	}
}

// begin begins an epoch after the feed's newest page.
func (r *floorRecord) begin(newest *Page, kept bool) {
	e := &epochRecord{Number: 1, ID: feed.NewID(), Page: newest.Number, Last: newest.Last.UnixMilli(), Kept: kept}
	if r.Epoch != nil {
		e.Number = r.Epoch.Number + 1
	}
	if r.Identity == "" {
		r.Identity = feed.NewID()
	}
	r.Epoch = e
}

// closePage closes a page if it is open. The error matches [storage.ErrConflict] if it has grown.
func closePage(ctx context.Context, store storage.Store, p *Page) error {
	if p.Closed {
		return nil
	}
	object, err := store.Get(ctx, key(p.Feed, p.Number), 0, p.Size)
	if err != nil {
		return fmt.Errorf("open page %d of feed %q: %w", p.Number, p.Feed, err)
	}
	defer object.Body.Close()
	h := sha256.New()
	if _, err := io.Copy(h, object.Body); err != nil {
		return fmt.Errorf("read page %d of feed %q: %w", p.Number, p.Feed, err)
	}
	switch sum := hex.EncodeToString(h.Sum(nil)); {
	case object.Version != p.Version:
		return fmt.Errorf("page %d of feed %q has grown: %w", p.Number, p.Feed, storage.ErrConflict)
	case sum != p.SHA256:
		return fmt.Errorf("%w: page %d of feed %q has SHA-256 %s, its metadata says %s", ErrCorrupt, p.Number, p.Feed, sum, p.SHA256)
	}
	end := page.AppendClose(nil, p.Boundary)
	h.Write(end)
	closed := *p
	closed.Closed, closed.SHA256 = true, hex.EncodeToString(h.Sum(nil))
	meta, err := closed.Meta()
	if err != nil {
		return err
	}
	if _, err := store.Append(ctx, key(p.Feed, p.Number), p.Version, meta, storage.Bytes(end)); err != nil {
		return fmt.Errorf("close page %d of feed %q: %w", p.Number, p.Feed, err)
	}
	return nil
}
