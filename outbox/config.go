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
	// ErrForeign: the feed's checkpoint is not one that this outbox has given it.
	// Nothing was published.
	ErrForeign = errors.New("feed does not continue this outbox")
	// ErrDestination: the outbox of the feed moves rows to the same database, and
	// the runner has another store; or the other way round.
	ErrDestination = errors.New("outbox has another destination")
	// ErrSetup: the database lacks the outbox, or the right to use it.
	ErrSetup = errors.New("database is not set up for the outbox")
	// ErrCapture: a table cannot be captured in this way.
	ErrCapture = errors.New("table cannot be captured")
	// ErrNotCaptured: the table is not captured.
	ErrNotCaptured = errors.New("table is not captured")
)

// Config holds the settings of a Runner. The zero value of each but Feed is its
// default.
type Config struct {
	// Feed is the feed whose rows are moved.
	Feed string
	// Store is where the pages are, or Local if they are in the database of the
	// outbox: then rows and pages move in one transaction. One of them must be set.
	Store storage.Store
	Local *postgres.Store
	// MaxRows and MaxBytes limit a batch: the number of rows, and the bytes of
	// their bodies before the last. Default to 5,000 and 4 MiB.
	MaxRows  int
	MaxBytes int64
	// MaxEntity sends rows with larger bodies to the quarantine, in bytes.
	// Defaults to no limit. Bodies larger than 1 MiB pass through a file in
	// Producer.SpoolDir.
	MaxEntity int64
	// Poll is how long the runner waits for more after it has moved some rows.
	// Without any, it waits longer and longer, up to ten times this. Defaults to 5 ms.
	Poll time.Duration
	// Lease is how long after a runner's last sign of life another takes over.
	// Defaults to 5 s.
	Lease time.Duration
	// Producer configures how pages are written.
	Producer producer.Config
	// Logger gets warnings. Defaults to none.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	c.MaxRows = cmp.Or(c.MaxRows, 5000)
	c.MaxBytes = cmp.Or(c.MaxBytes, 4<<20)
	c.Poll = cmp.Or(c.Poll, 5*time.Millisecond)
	c.Lease = cmp.Or(c.Lease, 5*time.Second)
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
	return nil
}
