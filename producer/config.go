package producer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/draft"
)

// Errors of this package, to be matched with [errors.Is]. Errors of packages storage and chain are
// returned as well.
var (
	// ErrInvalid means that an entity cannot be published. Its batch was not published.
	ErrInvalid = draft.ErrInvalid
	// ErrClock means that the time to be written is too far ahead of the store's clock.
	ErrClock = errors.New("clock is wrong")
	// ErrCheckpoint means that the feed's checkpoint is not the one from which the batch continues,
	// because another producer has published.
	ErrCheckpoint = errors.New("checkpoint has moved")
	// ErrUnknown means that a write of some of the entities failed with an unknown outcome: these
	// may be in the feed, or appear there later. Publish the entities again with the same
	// Content-IDs: those that were written are recognized.
	ErrUnknown = errors.New("outcome is unknown")
	// ErrLostPages means that the store has pages that the chain does not reach and that must not be
	// replaced, because they may not be orphans. The error is a [chain.LostError], and matches
	// [chain.ErrCorrupt]. "feedctl repair" is the remedy.
	ErrLostPages = chain.ErrLostPages
	// ErrClosed means that the Feed or Writer is closed. Nothing was published.
	ErrClosed = errors.New("producer is closed")
)

// Config holds the settings of a producer. The zero value of a field means its default.
type Config struct {
	// MaxPageBytes is the maximum size of a page. A page is closed before it would grow larger. A
	// larger entity gets a page of its own. Defaults to 1 MiB.
	MaxPageBytes int64
	// MaxPageEntities is the number of entities at which a page is closed. Defaults to 10,000.
	MaxPageEntities int
	// MaxWaiting is the maximum size, in bytes, of all entities that are not durable yet, including
	// those being written; further publishers wait for room. A store with a high latency needs more,
	// up to twice chain.Ahead pages. A batch larger than MaxWaiting waits until there are no others.
	// Streamed bodies do not count. Defaults to 32 MiB.
	MaxWaiting int64
	// Linger limits how long a commit waits for the publishers of the previous commit, if there were
	// several: it waits for a sixteenth of the time that the previous commit took, but no longer
	// than Linger. Defaults to 5 ms; negative means that commits do not wait.
	Linger time.Duration
	// MaxEntity is the maximum size of a body, in bytes. Defaults to no limit.
	MaxEntity int64
	// MaxClockSkew is how far the time of an entity may be ahead of the store's clock. If the store
	// has no clock, this machine's clock is used, as it was when the producer was opened, plus the
	// time that has passed since then. Defaults to 1 minute.
	MaxClockSkew time.Duration
	// RetryFor is how long a commit is retried while the store returns errors that leave its outcome
	// unknown. It must be less than the age from which pages may be pruned (PrunePolicy.MinAge). For
	// streamed bodies, one second is added for each 128 KiB. Defaults to 1 minute.
	RetryFor time.Duration
	// SpoolDir is the directory in which streamed bodies are kept until they are in the store.
	// Defaults to the system's directory for temporary files.
	SpoolDir string
	// Committed, if set, is called with the newest page after each commit, in the order of the
	// commits. It must neither change the page nor block.
	Committed func(*chain.Page)
	// Observe, if set, is called before each write of a page, possibly concurrently. It returns the
	// context for the write, and a function that is called with the outcome of the write.
	Observe func(context.Context, PageWrite) (context.Context, func(error))
	// Now returns the current time. Defaults to time.Now.
	Now func() time.Time
	// Logger receives warnings. By default, they are discarded.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	c.MaxPageBytes = cmp.Or(c.MaxPageBytes, 1<<20)
	c.MaxPageEntities = cmp.Or(c.MaxPageEntities, 10_000)
	c.MaxWaiting = cmp.Or(c.MaxWaiting, 32<<20)
	c.Linger = cmp.Or(c.Linger, 5*time.Millisecond)
	c.MaxClockSkew = cmp.Or(c.MaxClockSkew, time.Minute)
	c.RetryFor = cmp.Or(c.RetryFor, time.Minute)
	c.SpoolDir = cmp.Or(c.SpoolDir, os.TempDir())
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) validate() error {
	for _, limit := range []struct {
		name  string
		value int64
	}{
		{"MaxPageBytes", c.MaxPageBytes}, {"MaxPageEntities", int64(c.MaxPageEntities)},
		{"MaxWaiting", c.MaxWaiting},
		{"MaxClockSkew", int64(c.MaxClockSkew)}, {"RetryFor", int64(c.RetryFor)},
	} {
		if limit.value < 1 {
			return fmt.Errorf("configure producer: %s is %d, must be positive", limit.name, limit.value)
		}
	}
	if c.RetryFor >= minPruneAge {
		return fmt.Errorf("configure producer: RetryFor is %v, must be less than %v, the age from which pages may be pruned", c.RetryFor, minPruneAge)
	}
	return nil
}

// A PageWrite describes a write that adds entities to a page.
type PageWrite struct {
	Feed     string
	Page     int64
	Entities int         // number of entities that are added
	Traces   feed.Traces // the traces in which these entities were published
}

// A Batch holds entities to be published in order, after everything published before.
type Batch struct {
	Entities []*Entity
	// Checkpoint, if not nil, is stored together with the last entity of the batch. It is the
	// position of the producer's source, of at most chain.MaxCheckpoint bytes. The batch is refused
	// with ErrCheckpoint unless the feed's checkpoint is Previous when the batch is written (nil and
	// empty are equivalent). If all entities are already in the feed, nothing is written. In that
	// case this producer's next commit stores the checkpoint, and the next batch may continue from
	// it, or again from the checkpoint that is stored.
	Checkpoint []byte
	Previous   []byte
	// Known, if not 0, is the number of a page. The publisher knows that no earlier page has any of
	// the entities, so their Content-IDs are compared only with those on this page and later ones.
	// The page must be the one that was the newest when the feed had the checkpoint Previous, or an
	// earlier page. Known is ignored if Previous is empty: only an unchanged checkpoint shows that
	// the feed is still the same.
	Known int64
	// After, if not nil, is an earlier publication of the same Feed. The batch is published only if
	// that publication succeeds.
	After *Publication
	// More means that another batch follows at once. Entities at the end of this batch that do not
	// fill a page wait for the next batch, but only while other pages are being written.
	More bool
}
