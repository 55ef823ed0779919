package bridge

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/feedctl/feedctl/feedstore"
	"github.com/feedctl/feedctl/internal/backoff"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
)

// Config configures a [Bridge].
type Config struct {
	Kind   string // of the source, such as "couchdb", for checkpoints
	Source string // its URL, without credentials
	// Selection is a digest of the settings that determine which changes are published. A
	// checkpoint is valid only with the same selection.
	Selection string

	Store storage.Store // of the feed
	Feed  string        // its name
	// Index is the path of the index, which is created if it does not exist.
	Index string
	// Latest keeps only the newest version of each id in the index, and lists the ids
	// ([Index.Look]). It requires that revisions are stamps: numbers that usually grow, which may be
	// followed by ";" and other text.
	Latest bool
	// MaxEntity is the size in bytes above which entities are put into quarantine. Zero means no limit.
	MaxEntity int64
	// RetryPolicy says how failures of the source are retried.
	RetryPolicy RetryPolicy
	// Producer configures the feed's producer. Its MaxWaiting defaults to 2 MiB.
	Producer producer.Config
	Log      *slog.Logger // nil: none
}

// A Bridge is the part of a bridge that publishes to the feed. Its methods may be called
// concurrently, except those that read the feed or publish: only one may be in progress.
type Bridge struct {
	Index *Index
	Meter Meter
	// Sleep waits between attempts.
	Sleep func(context.Context, time.Duration) error

	config Config
	log    *slog.Logger
	reader *feedstore.Reader
	feed   *producer.Feed
}

// Open returns a bridge. The caller must close it.
func Open(ctx context.Context, c Config) (*Bridge, error) {
	if c.Store == nil || c.Index == "" {
		return nil, errors.New("configure bridge: Store and Index are required")
	}
	if err := layout.CheckName(c.Feed); err != nil {
		return nil, err
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	c.Producer.Logger = cmp.Or(c.Producer.Logger, c.Log)
	c.Producer.MaxWaiting = cmp.Or(c.Producer.MaxWaiting, 2<<20)
	b := &Bridge{config: c, log: c.Log, reader: feedstore.NewLocal(c.Store, c.Log), Sleep: backoff.Sleep}
	b.Meter.progress.Pending = -1
	var err error
	var l *latest
	if c.Latest {
		l = &latest{underway: map[string]Held{}}
	}
	if b.Index, err = openIndex(c.Index, c.Kind, l); err != nil {
		return nil, err
	}
	if b.feed, err = producer.Open(ctx, c.Store, c.Feed, c.Producer); err != nil {
		return nil, errors.Join(err, b.Index.Close())
	}
	return b, nil
}

// Close waits for pending publications and closes the index.
func (b *Bridge) Close() error {
	b.reader.Close(context.Background())
	return errors.Join(b.feed.Close(), b.Index.Close())
}

// NewID returns a random id.
func NewID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // it never fails
	return hex.EncodeToString(id[:])
}

// catchUp fills the index and returns the feed's checkpoint.
func (b *Bridge) catchUp(ctx context.Context) (at Checkpoint, err error) {
	if at, err = b.Index.catchUp(ctx, b.reader, b.config.Feed); err != nil {
		return at, err
	}
	if at.newest != nil {
		b.feed.Seen(at.newest)
	}
	if at.Begins() {
		at.Feed = NewID()
	}
	return at, nil
}

// Start fills the index and returns where to begin: the feed's checkpoint, with the last position up
// to which everything is in the feed, and the session that reached it. If the selection has changed,
// the source must be read from its beginning; in that case at.Since is nil and reselected is true.
func (b *Bridge) Start(ctx context.Context) (at Checkpoint, reselected bool, err error) {
	if at, err = b.catchUp(ctx); err != nil || at.Begins() {
		return at, false, err
	}
	resting, err := b.Index.rested()
	switch {
	case err != nil:
		return at, false, err
	case bytes.Equal(resting.Checkpoint, at.encoded) && resting.Selection == b.config.Selection:
		at.Since, at.Session = resting.Since, cmp.Or(resting.Session, at.Session)
	case at.Selection != b.config.Selection:
		b.log.Info("selection has changed, reading the source from its beginning", "feed", b.config.Feed)
		at.Since, reselected = nil, true
	}
	return at, reselected, nil
}

// Repeat calls run, and calls it again whenever it fails because another producer has written to
// the feed. If it fails because ctx ends, the error also matches the cause ([context.Cause]).
func (b *Bridge) Repeat(ctx context.Context, run func() error) error {
	for {
		err := run()
		switch cause := context.Cause(ctx); {
		case cause != nil && errors.Is(err, ctx.Err()) && !errors.Is(err, cause): // an error of a request, for example
			return fmt.Errorf("%w: %w", err, cause)
		case cause != nil || !errors.Is(err, producer.ErrCheckpoint) && !errors.Is(err, errMoved):
			return err
		}
		b.log.Warn("another producer has written to the feed, continuing from its new checkpoint", "feed", b.config.Feed, "error", err)
		if err := b.Sleep(ctx, backoff.Jitter(time.Second)); err != nil {
			return err
		}
	}
}
