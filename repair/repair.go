// Package repair brings a feed that lost objects, or parts of them, back to a state
// that can be read and published to.
//
// It restores metadata where the body of a page is left, cuts a page that is torn back
// to its last whole entity, and as a last resort ends the feed with the last page that
// is whole: what is beyond is moved aside, never deleted. What it cannot bring back it
// lists.
//
// No producer may publish to the feed meanwhile. A repair that was interrupted is
// completed by the next one.
package repair

import (
	"context"
	"fmt"
	"time"

	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/storage"
)

// Config holds the settings of a repair.
type Config struct {
	// Apply changes the store. Otherwise the report says what would be done.
	Apply bool
	// Now is the clock for stores that have none. Defaults to time.Now.
	Now func() time.Time
}

// An Action is what is done to one object.
type Action string

// The actions.
const (
	// Restore writes metadata for the body of a page that is left.
	Restore Action = "restore"
	// RaiseFloor makes a later page the oldest one: those before are gone.
	RaiseFloor Action = "raise-floor"
	// MoveAside takes a page out of the feed, which the chain does not reach any more.
	MoveAside Action = "move-aside"
)

// A Step is one action.
type Step struct {
	Action   Action `json:"action"`
	Page     int64  `json:"page"`
	Key      string `json:"key"`
	To       string `json:"to,omitempty"`       // where the object is moved
	Entities int    `json:"entities,omitempty"` // that the page has then
	// Proven says that the digest in the next page proves what is restored right.
	Proven bool `json:"proven,omitempty"`

	do     func(context.Context) error
	finish func(context.Context) error // when all have been done; nil: nothing
}

// A Loss is what is no longer in the feed.
type Loss struct {
	Page     int64     `json:"page"`
	Entities int       `json:"entities"`          // -1: not known
	First    time.Time `json:"first,omitzero"`    // Last-Modified; those of the neighbours if not known
	Last     time.Time `json:"last,omitzero"`     //
	FirstID  string    `json:"firstId,omitempty"` // Content-ID
	LastID   string    `json:"lastId,omitempty"`  //
	Aside    string    `json:"aside,omitempty"`   // the key where it is kept
}

// A Report tells what was found, and is or was done.
type Report struct {
	Feed    string `json:"feed"`
	Applied bool   `json:"applied"` // the steps were done
	Oldest  int64  `json:"oldestPage"`
	Newest  int64  `json:"newestPage"` // 0: the feed has no page left
	Steps   []Step `json:"steps"`      // empty: nothing is wrong
	Lost    []Loss `json:"lost"`
}

// Feed examines a feed, and with Apply repairs it. The error is [chain.ErrNoFeed] if
// there is none.
func Feed(ctx context.Context, store storage.Store, name string, c Config) (*Report, error) {
	if err := layout.CheckName(name); err != nil {
		return nil, err
	}
	x, err := examine(ctx, store, name, c.Now)
	if err != nil {
		return nil, fmt.Errorf("repair feed %q: %w", name, err)
	}
	if !c.Apply {
		return x.report, nil
	}
	for _, step := range x.report.Steps {
		if err := step.do(ctx); err != nil {
			return x.report, failed(name, step, err)
		}
	}
	// What is moved has been copied. It is deleted in order, as producers refuse to
	// publish as long as the last page is there.
	for _, step := range x.report.Steps {
		if step.finish == nil {
			continue
		}
		if err := step.finish(ctx); err != nil {
			return x.report, failed(name, step, err)
		}
	}
	x.report.Applied = true
	again, err := examine(ctx, store, name, c.Now)
	if err == nil && len(again.report.Steps) > 0 {
		err = fmt.Errorf("%s has changed meanwhile: end all producers of the feed, and repair it again", again.report.Steps[0].Key)
	}
	if err != nil && x.report.Newest > 0 {
		return x.report, fmt.Errorf("repair feed %q: %w", name, err)
	}
	return x.report, nil
}

func failed(name string, step Step, err error) error {
	return fmt.Errorf("repair feed %q: %s %s: %w", name, step.Action, step.Key, err)
}
