package chain

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/storage"
)

// ErrOtherFeed means that two stores have different feeds of the same name: their identities
// differ.
var ErrOtherFeed = errors.New("it is another feed of the same name")

// An epochRecord is a [feed.Epoch] in the metadata of a feed's floor object.
type epochRecord struct {
	Number int64  `json:"number"`
	ID     string `json:"id"`
	Page   int64  `json:"page"`   // the newest page when the epoch began
	Last   int64  `json:"lastMs"` // Last-Modified of its last entity then, Unix milliseconds
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

// validIdentity reports whether the members of the record that are the feed's identity are complete.
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

// EpochOptions say how an epoch begins. The zero value is that after a restore.
type EpochOptions struct {
	// Floor, if it is higher than the feed's, becomes the floor in the same write: the
	// pages from there on replace those before.
	Floor int64
	// Kept is [feed.Epoch.Kept].
	Kept bool
}

// BeginEpoch begins a new epoch of a feed after its store was restored to an older state, and
// returns the feed's identity. It is one conditional write, and harmless if repeated: consumers
// that have read nothing but what the feed has continue, and all others are told.
//
// A feed without pages has nothing in common with what it was: it gets another ID instead. The
// error matches [ErrNoFeed] if the feed has neither pages nor an identity, and [ErrDeleting].
func BeginEpoch(ctx context.Context, store storage.Store, name string, o EpochOptions) (feed.Identity, error) {
	for {
		r, version, err := readFloor(ctx, store, name)
		if err == nil && r.Deleting {
			err = fmt.Errorf("feed %q: %w", name, ErrDeleting)
		}
		if err != nil {
			return feed.Identity{}, err
		}
		newest, err := NewReader(store, name).Newest(ctx)
		switch {
		case errors.Is(err, ErrNoFeed) && (r.Identity != "" || r.Deleted):
			r.renew()
		case err != nil:
			return feed.Identity{}, err
		default:
			r.begin(newest, o)
		}
		if _, err = writeFloor(ctx, store, version, r); !overtaken(err) {
			return r.identity(), err
		}
	}
}

// begin begins an epoch after the feed's newest page.
func (r *floorRecord) begin(newest *Page, o EpochOptions) {
	e := &epochRecord{Number: 1, ID: feed.NewID(), Page: newest.Number, Last: newest.Last.UnixMilli(), Kept: o.Kept}
	if r.Epoch != nil {
		e.Number = r.Epoch.Number + 1
	}
	if r.Identity == "" {
		r.Identity = feed.NewID()
	}
	r.Epoch = e
	if o.Floor > r.Floor {
		r.Floor, r.Deleted = o.Floor, false // a feed that has a page exists
	}
}
