// Package repair makes a feed that lost objects, or parts of them, readable and
// publishable again.
//
// It restores the metadata of a page from its body, truncates an incomplete page after
// its last complete entity, and as a last resort ends the feed with the last intact
// page: pages beyond it are moved aside, never deleted. It lists what it cannot restore.
//
// No producer may publish to the feed at the same time. An interrupted repair is
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
	// Apply means that the changes are made. Otherwise the report only lists them.
	Apply bool
	// Now is the clock for stores that have none. Defaults to time.Now.
	Now func() time.Time
}

// An Action is a kind of change to one object.
type Action string

// The actions.
const (
	// Restore writes metadata for a page of which only the body is left.
	Restore Action = "restore"
	// RaiseFloor makes a later page the oldest one, because those before it are lost.
	RaiseFloor Action = "raise-floor"
	// MoveAside moves out of the feed a page that the chain no longer reaches.
	MoveAside Action = "move-aside"
)

// A Step is one action.
type Step struct {
	Action   Action `json:"action"`
	Page     int64  `json:"page"`
	Key      string `json:"key"`
	To       string `json:"to,omitempty"`       // the new key of a moved object
	Entities int    `json:"entities,omitempty"` // in the restored page
	// Proven means that the digest in the next page proves the restored page correct.
	Proven bool `json:"proven,omitempty"`

	do     func(context.Context) error
	finish func(context.Context) error // called when all steps have been done; may be nil
}

// A Loss is a page, or a part of one, that is no longer in the feed.
type Loss struct {
	Page     int64     `json:"page"`
	Entities int       `json:"entities"`          // -1 if unknown
	First    time.Time `json:"first,omitzero"`    // Last-Modified; of the adjacent pages if unknown
	Last     time.Time `json:"last,omitzero"`     //
	FirstID  string    `json:"firstId,omitempty"` // Content-ID
	LastID   string    `json:"lastId,omitempty"`  //
	Aside    string    `json:"aside,omitempty"`   // the key to which it is moved
}

// A Report lists what was found, and what was or would be done.
type Report struct {
	Feed    string `json:"feed"`
	Applied bool   `json:"applied"` // the steps were carried out
	Oldest  int64  `json:"oldestPage"`
	Newest  int64  `json:"newestPage"` // 0: the feed has no page left
	Steps   []Step `json:"steps"`      // empty: nothing is wrong
	Lost    []Loss `json:"lost"`
	Error   string `json:"error,omitempty"` // why the feed could not be repaired
}

// Feed examines a feed and, with Apply, repairs it. The error, which is in the report too,
// matches [chain.ErrNoFeed] if the feed does not exist.
func Feed(ctx context.Context, store storage.Store, name string, c Config) (*Report, error) {
	report, err := repair(ctx, store, name, c)
	if err != nil {
		err = fmt.Errorf("repair feed %q: %w", name, err)
		report.Error = err.Error()
	}
	return report, err
}

func repair(ctx context.Context, store storage.Store, name string, c Config) (*Report, error) {
	if err := layout.CheckName(name); err != nil {
		return &Report{Feed: name}, err
	}
	x, err := examine(ctx, store, name, c.Now)
	if err != nil {
		return &Report{Feed: name, Steps: []Step{}, Lost: []Loss{}}, err
	}
	if !c.Apply {
		return x.report, nil
	}
	for _, step := range x.report.Steps {
		if err := step.do(ctx); err != nil {
			return x.report, failed(step, err)
		}
	}
	// The pages to move have been copied. They are deleted in order, because producers
	// refuse to publish while the last page exists.
	for _, step := range x.report.Steps {
		if step.finish == nil {
			continue
		}
		if err := step.finish(ctx); err != nil {
			return x.report, failed(step, err)
		}
	}
	x.report.Applied = true
	again, err := examine(ctx, store, name, c.Now)
	if err == nil && len(again.report.Steps) > 0 {
		err = fmt.Errorf("%s changed during the repair: stop all producers of the feed, and repair it again", again.report.Steps[0].Key)
	}
	if err != nil && x.report.Newest > 0 {
		return x.report, err
	}
	return x.report, nil
}

func failed(step Step, err error) error {
	return fmt.Errorf("%s %s: %w", step.Action, step.Key, err)
}
