package producer

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/internal/draft"
)

// Errors of this package, to be matched with [errors.Is]. Those of packages
// storage and chain come through as well.
var (
	// ErrInvalid: an entity cannot be published. Nothing of its batch was.
	ErrInvalid = draft.ErrInvalid
	// ErrClock: the time that would be written is too far ahead of the store's.
	ErrClock = errors.New("clock is wrong")
	// ErrCheckpoint: the feed's checkpoint is not the one that the batch
	// continues from: another producer has been at work.
	ErrCheckpoint = errors.New("checkpoint has moved")
	// ErrUnknown: something went wrong after the store had been asked to write the
	// entities, or some of them, and nobody can say whether it did or still will.
	// Publish again with the same Content-IDs: those written are recognised.
	ErrUnknown = errors.New("outcome is unknown")
	// ErrLostPages: the store holds pages that the chain does not reach and that this
	// producer must not replace, as they are not, or may not be, orphans. The error is a
	// [chain.LostError], and matches [chain.ErrCorrupt]. "feedctl repair" is the remedy.
	ErrLostPages = chain.ErrLostPages
	// ErrClosed: the Feed has been closed. Nothing was published.
	ErrClosed = errors.New("producer is closed")
)

// Config holds the settings of a producer. The zero value of each is its default.
type Config struct {
	// MaxPageBytes closes a page before it grows beyond this many bytes; an
	// entity that is larger gets a page of its own. Defaults to 1 MiB.
	MaxPageBytes int64
	// MaxPageEntities closes a page with this many entities. Defaults to 10,000.
	MaxPageEntities int
	// MaxWaiting is how many bytes of entities may wait until they are durable, those
	// being written among them; further publishers wait for room. What is to keep a
	// store busy that takes long to answer must wait here: twice chain.Ahead pages are
	// of use at most. A batch that is larger by itself waits until it is alone. Streamed
	// bodies do not count. Defaults to 32 MiB.
	MaxWaiting int64
	// Linger is how long a commit may wait for those publishers to join whose
	// entities the one before wrote, if there were several: a sixteenth of what that
	// commit took, but not longer than this. Defaults to 5 ms; negative means not
	// at all.
	Linger time.Duration
	// MaxEntity refuses entities with larger bodies, in bytes. Defaults to no limit.
	MaxEntity int64
	// MaxClockSkew is how far the time of an entity may be ahead of the store's
	// clock, or for stores without one of this machine's clock as it was when
	// the producer was opened plus the time since. Defaults to 1 minute.
	MaxClockSkew time.Duration
	// RetryFor is how long a commit is tried while the store answers with
	// errors that leave its outcome unknown. It must stay below the time for
	// which pruning leaves pages alone (PrunePolicy.MinAge). A streamed body has a
	// second more for each 128 KiB. Defaults to 1 minute.
	RetryFor time.Duration
	// SpoolDir is where streamed bodies are kept until they are in the store.
	// Defaults to the system's directory for temporary files.
	SpoolDir string
	// Now is the clock. Defaults to time.Now.
	Now func() time.Time
	// Logger gets warnings. Defaults to none.
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
		return fmt.Errorf("configure producer: RetryFor is %v, must be under %v, the age from which pages may be pruned", c.RetryFor, minPruneAge)
	}
	return nil
}

// A Batch is published in order, after everything published before it.
type Batch struct {
	Entities []*Entity
	// Checkpoint, if not nil, is stored together with the last entity of the
	// batch: at most chain.MaxCheckpoint bytes that say where the producer's
	// source stood. The batch is refused with ErrCheckpoint unless the feed's
	// checkpoint is Previous at that moment (nil and empty are the same). If all
	// entities turn out to be in the feed already, nothing is written: the checkpoint
	// is then stored by this producer's next commit, and its next batch continues from it.
	Checkpoint []byte
	Previous   []byte
	// After, if not nil, was begun before, on the same Feed. The batch is published
	// only if that one is.
	After *Publication
	// More says that another batch is going to follow at once. Those entities at its end
	// that do not fill a page then wait for it, but not longer than until the pages that
	// are on their way have arrived.
	More bool
}

func (b Batch) validate() error {
	if len(b.Entities) == 0 {
		return fmt.Errorf("%w: a batch needs at least one", ErrInvalid)
	}
	if len(b.Checkpoint) > chain.MaxCheckpoint {
		return fmt.Errorf("%w: checkpoint has %d bytes, at most %d fit", ErrInvalid, len(b.Checkpoint), chain.MaxCheckpoint)
	}
	return nil
}
