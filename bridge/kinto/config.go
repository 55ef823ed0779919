package kinto

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/feedctl/feedctl/kinto"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
)

// Attachments says how files that were attached to records with kinto-attachment are published.
type Attachments string

// Ways to publish attachments.
const (
	// None removes the member attachment from records.
	None Attachments = "none"
	// Stub publishes records as they are: with the location, size and SHA-256 of the file.
	Stub Attachments = "stub"
	// Inline also publishes the file, as a separate entity before that of the record. Its
	// Content-Location is that of the record, followed by "/attachment".
	Inline Attachments = "inline"
)

// OnGone says what a bridge does when the server says that the collection does not exist.
type OnGone string

// What to do when the collection does not exist.
const (
	Stop   OnGone = "stop"   // fail with [ErrGone]
	Delete OnGone = "delete" // delete all records from the feed
)

// Never is a [Config.Reconcile] that compares all ids only if there is a sign that something is
// missing.
const Never = time.Duration(-1)

// Config configures a bridge. Source, Store, Feed and Index are required.
type Config struct {
	// Source is the collection. The bucket name "default" is replaced with the id that the server
	// gives for the user's bucket.
	Source *kinto.Collection
	Store  storage.Store // of the feed
	Feed   string        // the feed's name
	// Index is the path of the index, which is created if it does not exist.
	Index string

	// Attachments defaults to Stub.
	Attachments Attachments
	// MaxRecord is the size in bytes above which records and attachments are put into quarantine.
	// Zero means no limit other than that of the client ([kinto.Config]).
	MaxRecord int64
	// OnGone defaults to Stop.
	OnGone OnGone
	// MaxGone limits how many records may be missing from the collection without a tombstone, as a
	// percentage of those in the feed; 100 records may always be missing. If there are more, the run
	// fails with [ErrManyGone]. Zero means 20.
	MaxGone int
	// Reconcile is the time after which all ids are compared again. Zero means 24 h. See [Never].
	Reconcile time.Duration
	// ReconcileNow compares all ids at the beginning of a run, too.
	ReconcileNow bool
	// TombstonesKept is how long the server keeps tombstones. If no changes were read for longer, all
	// ids are compared. Zero means that they are kept for ever.
	TombstonesKept time.Duration
	// Window is a time longer than any request of a writer to the server takes. Zero means 1 min.
	Window time.Duration
	// NewestFirst publishes the newest records first if the feed is empty, and older ones alongside
	// new changes.
	NewestFirst bool
	// Mark writes a random value into the metadata of the collection, which the user needs permission
	// to write. The value is missing or different if the collection was replaced, or restored from a
	// backup that was made before the value was written.
	Mark bool
	// Moved declares that the source is the one that the feed was filled from, although its URL has
	// changed. Set it for one run only.
	Moved bool
	// Follow waits for changes at the end, and requests them every Interval. Zero means 10 s.
	Follow   bool
	Interval time.Duration
	// Idle, if not nil, is called with Follow when the source has no change that the feed lacks.
	Idle func()
	// waiting, if not nil, is called before each pause: between two polls, or before another attempt.
	waiting func()
	// Attempts is how many times changes are requested without any progress. Zero means 8, or with Follow
	// no limit. Negative: no limit.
	Attempts int
	// Producer configures the feed's producer. Its MaxWaiting defaults to 2 MiB.
	Producer producer.Config
	// Log receives messages for operators. nil means no logging.
	Log *slog.Logger
}

// Check returns an error if the settings are invalid.
func (c *Config) Check() error {
	switch c.Attachments {
	case "", None, Stub, Inline:
	default:
		return fmt.Errorf("attachments %q is not one of none, stub, inline", c.Attachments)
	}
	switch c.OnGone {
	case "", Stop, Delete:
	default:
		return fmt.Errorf("on-gone %q is not one of stop, delete", c.OnGone)
	}
	if c.MaxGone < 0 || c.MaxGone > 100 {
		return fmt.Errorf("max-gone %d is not a percentage", c.MaxGone)
	}
	return nil
}

func (c Config) withDefaults() (Config, error) {
	if err := c.Check(); err != nil {
		return c, fmt.Errorf("configure bridge: %w", err)
	}
	if c.Source == nil {
		return c, errors.New("configure bridge: Source is required")
	}
	c.Attachments = cmp.Or(c.Attachments, Stub)
	c.OnGone = cmp.Or(c.OnGone, Stop)
	c.MaxGone = cmp.Or(c.MaxGone, 20)
	c.Reconcile = cmp.Or(c.Reconcile, 24*time.Hour)
	c.Window = cmp.Or(c.Window, time.Minute)
	c.Interval = cmp.Or(c.Interval, 10*time.Second)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return c, nil
}
