package outbox

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/postgres"
)

// Errors of this package, to be matched with [errors.Is].
var (
	// ErrForeign means that the feed's checkpoint was not written by this outbox.
	// Nothing was published.
	ErrForeign = errors.New("feed does not continue this outbox")
	// ErrDestination means that the rows of the feed are moved to pages in the outbox's own database,
	// but the runner has another store, or the reverse.
	ErrDestination = errors.New("outbox has another destination")
	// ErrSetup means that the database has no outbox, or that the user may not use it.
	ErrSetup = errors.New("database is not set up for the outbox")
	// ErrCapture means that a table cannot be captured as specified by the [Capture].
	ErrCapture = errors.New("table cannot be captured")
	// ErrNotCaptured means that the table is not captured.
	ErrNotCaptured = errors.New("table is not captured")
)

// Config holds the settings of a Runner. Zero values, except that of Feed, mean
// the defaults.
type Config struct {
	// Feed is the feed whose rows are moved.
	Feed string
	// Store is where pages are written. If the pages are in the database of the outbox, Local is set
	// instead: then rows are removed and pages written in one transaction. One of the two must be set.
	Store storage.Store
	Local *postgres.Store
	// MaxRows is the maximum number of rows in a batch. A batch also ends with the row that brings the
	// size of its bodies to MaxBytes. The defaults are 5,000 and 4 MiB.
	MaxRows  int
	MaxBytes int64
	// MaxEntity is the maximum size of a body, in bytes; rows with larger bodies are quarantined.
	// Defaults to no limit. Bodies larger than 1 MiB pass through a file in Producer.SpoolDir.
	MaxEntity int64
	// Poll is the interval at which a runner that has moved rows polls for more. While there are no
	// rows, the interval grows to at most ten times Poll. Defaults to 5 ms.
	Poll time.Duration
	// Lease is how long a lease lasts after its runner has extended it; after that, another runner
	// takes over. Defaults to 5 s.
	Lease time.Duration
	// RetryFor is how long Run retries as long as all errors are transient. Each attempt is also
	// limited by Producer.RetryFor. Defaults to no limit.
	RetryFor time.Duration
	// Producer configures how pages are written.
	Producer producer.Config
	// Idle, if not nil, is called by [Runner.Run] whenever a query made after the previous call has
	// found no rows of the feed. All rows that were committed before that query have been moved.
	Idle func()
	// Logger receives warnings and errors. By default, they are discarded.
	Logger *slog.Logger

	// taken is called before rows are published, with the time at which the first of them was
	// inserted.
	taken func(oldest time.Time)
}

func (c Config) withDefaults() Config {
	c.MaxRows = cmp.Or(c.MaxRows, 5000)
	c.MaxBytes = cmp.Or(c.MaxBytes, 4<<20)
	c.Poll = cmp.Or(c.Poll, 5*time.Millisecond)
	c.Lease = cmp.Or(c.Lease, 5*time.Second)
	if c.Idle == nil {
		c.Idle = func() {}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Producer.Logger == nil {
		c.Producer.Logger = c.Logger
	}
	return c
}

func (c Config) validate() error {
	if err := layout.CheckName(c.Feed); err != nil {
		return fmt.Errorf("configure outbox: %w", err)
	}
	if (c.Store == nil) == (c.Local == nil) {
		return errors.New("configure outbox: one of Store and Local must be set")
	}
	for _, limit := range []struct {
		name  string
		value int64
	}{
		{"MaxRows", int64(c.MaxRows)}, {"MaxBytes", c.MaxBytes}, {"Poll", int64(c.Poll)}, {"Lease", int64(c.Lease)},
	} {
		if limit.value < 1 {
			return fmt.Errorf("configure outbox: %s is %d, must be positive", limit.name, limit.value)
		}
	}
	if c.RetryFor < 0 {
		return fmt.Errorf("configure outbox: RetryFor is %v, must not be negative", c.RetryFor)
	}
	return nil
}
