// Package restore writes the state of a feed at a point in time into a new sink: the newest snapshot that
// is not later, and then the feed up to that point.
//
// A run that was interrupted, or killed, is continued by [Run] with the same settings. A sink with data or
// a position of its own is refused, and so is one that is being restored to another point. After the run
// has ended, a consumer can continue with the sink, as with any other.
//
// The times are those of the feed: an entity has the time at which it was published, which is later than the
// change in the database that it came from.
package restore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
)

// Config configures a [Run].
type Config struct {
	// Client reads the feed whose entry point is URL. It must not follow the feed. Feed identifies the feed
	// in positions; see [consumer.Job].
	Client *consumer.Client
	URL    string
	Feed   string
	// Snapshots is the URL of the newest index of the snapshots of the feed. "" means that there are none.
	Snapshots string
	// At is the time, or the entity, up to which the feed is restored.
	At   consumer.Until
	Sink consumer.Sink
	// KeyPointer, BatchEntities and BatchBytes are those of [consumer.Job].
	KeyPointer    string
	BatchEntities int
	BatchBytes    int64
	// Progress, if not nil, is called after each commit.
	Progress func(consumer.Progress)
	// Logger logs what the run begins with. nil means no logging.
	Logger *slog.Logger
}

// A Report describes a run. The counts are those of this run, without those of earlier runs that it
// continued.
type Report struct {
	consumer.Stats
	// Resumed means that the run continued an earlier one.
	Resumed bool `json:"resumed"`
	// Snapshot is the URL of the index that the run began with, and SnapshotAt the time of its position. Both
	// are empty if the run began with the feed, or continued in it.
	Snapshot   string    `json:"snapshot,omitempty"`
	SnapshotAt time.Time `json:"snapshotAt,omitzero"`
	// Position is the current position of the sink.
	Position feed.Position `json:"position"`
}

var (
	// ErrNotNew means that the sink has data or a position that is not from this restore.
	ErrNotNew = errors.New("the sink is not new")
	// ErrTooEarly means that the state at the point is unknown: see [TooEarlyError].
	ErrTooEarly = errors.New("neither the feed nor a snapshot goes back that far")
)

// A TooEarlyError means that neither the feed nor a snapshot goes back to the point.
type TooEarlyError struct {
	At consumer.Until
	consumer.Oldest
	// Snapshot says why the run could not begin with a snapshot; it may name the oldest one.
	Snapshot error
}

func (e *TooEarlyError) Error() string {
	from := e.LastModified.UTC().Format(time.RFC3339)
	if !e.Pruned {
		return fmt.Sprintf("%v: the feed begins at %s, which is the oldest time that can be restored", ErrTooEarly, from)
	}
	text := fmt.Sprintf("%v: the pages of the feed before %s were pruned", ErrTooEarly, from)
	if e.Snapshot != nil {
		text += fmt.Sprintf(", and there is no earlier snapshot: %v", e.Snapshot)
	}
	return text
}

// Unwrap returns [ErrTooEarly].
func (e *TooEarlyError) Unwrap() error { return ErrTooEarly }

// empty is implemented by a sink that can be opened although it has data but no position.
type empty interface {
	// Empty reports whether the target has no data at all.
	Empty(ctx context.Context) (bool, error)
}

// Run restores the state at c.At into c.Sink. If the error matches [ErrNotNew] or [ErrTooEarly], nothing
// was written. After another error, Run with the same Config continues.
func Run(ctx context.Context, c Config) (*Report, error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	report, err := c.run(ctx)
	if err != nil {
		return report, fmt.Errorf("restore %s: %w", c.At, err)
	}
	return report, nil
}

func (c *Config) run(ctx context.Context) (*Report, error) {
	if c.At.IsZero() {
		return nil, errors.New("the point to restore to is missing: set At")
	}
	if err := c.At.Check(); err != nil {
		return nil, err
	}
	to := &marked{Sink: c.Sink, mark: c.At.String()}
	report := &Report{}
	at, err := c.Sink.Position(ctx)
	if err != nil {
		return nil, fmt.Errorf("read position of sink: %w", err)
	}
	if report.Resumed, err = c.checkNew(ctx, at); err != nil {
		return nil, err
	}
	from := consumer.Beginning()
	if isStart(at) {
		if from, err = c.start(ctx, report); err != nil {
			return nil, err
		}
		if err := to.begin(ctx, c.Feed); err != nil {
			return nil, err
		}
	}
	job := consumer.Job{
		Client: c.Client, URL: c.URL, Feed: c.Feed, Sink: to, From: from, Until: c.At, KeyPointer: c.KeyPointer,
		BatchEntities: c.BatchEntities, BatchBytes: c.BatchBytes, Progress: c.Progress, Logger: c.Logger,
	}
	report.Stats, err = job.Run(ctx)
	if err != nil {
		return report, err
	}
	if report.Position, err = c.Sink.Position(ctx); err != nil {
		return report, fmt.Errorf("read position of sink: %w", err)
	}
	return report, nil
}

// checkNew reports whether a position belongs to this restore, and returns an error if the sink is neither
// new nor from this restore.
func (c *Config) checkNew(ctx context.Context, at feed.Position) (resumed bool, err error) {
	switch {
	case at.Restore == c.At.String() && at.Feed == c.Feed:
		return true, nil
	case at.Restore != "":
		return false, fmt.Errorf("%w: it was restored, or is being restored, to %s of %s", ErrNotNew, at.Restore, at.Feed)
	case !at.IsZero():
		return false, fmt.Errorf("%w: a consumer of %s has a position in it", ErrNotNew, at.Feed)
	}
	if s, ok := c.Sink.(empty); ok {
		if none, err := s.Empty(ctx); err != nil {
			return false, fmt.Errorf("look for data in the sink: %w", err)
		} else if !none {
			return false, fmt.Errorf("%w: it has data", ErrNotNew)
		}
	}
	return false, nil
}

// start returns where to begin.
func (c *Config) start(ctx context.Context, report *Report) (consumer.Start, error) {
	t, latest := c.At.Time(), c.At.Time()
	if id := c.At.ContentID(); id != "" {
		var err error
		if t, err = c.Client.Find(ctx, c.URL, id); err != nil {
			return consumer.Start{}, err
		}
		latest = t.Add(-time.Second) // a snapshot of the same second may be later than the entity
	}
	var none error
	if c.Snapshots != "" {
		index, url, err := c.Client.IndexAt(ctx, c.Snapshots, latest)
		switch {
		case err == nil && index.Feed != nil:
			report.Snapshot, report.SnapshotAt = url, feed.Truncate(index.Feed.LastModified)
			c.Logger.InfoContext(ctx, "begin with snapshot", "index", url, "time", report.SnapshotAt)
			return consumer.FromSnapshot(url), nil
		case err == nil:
			none = fmt.Errorf("snapshot %s has no position in the feed", url)
		case isNone(err):
			none = err
		default:
			return consumer.Start{}, err
		}
	}
	oldest, err := c.Client.Oldest(ctx, c.URL)
	if err != nil {
		return consumer.Start{}, err
	}
	if oldest.Pruned || oldest.LastModified.After(t) {
		return consumer.Start{}, &TooEarlyError{At: c.At, Oldest: oldest, Snapshot: none}
	}
	c.Logger.InfoContext(ctx, "begin with the oldest page of the feed", "time", oldest.LastModified)
	return consumer.Beginning(), nil
}

// isNone reports whether an error means that there is no snapshot from which to begin.
func isNone(err error) bool {
	status, ok := errors.AsType[*consumer.StatusError](err)
	return errors.Is(err, consumer.ErrNotFound) || errors.Is(err, consumer.ErrNoEarlier) || ok && status.StatusCode == http.StatusNotFound
}
