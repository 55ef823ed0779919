package bridge

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"time"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/internal/backoff"
	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/producer"
	"github.com/feedctl/feedctl/storage"
)

// Config says what a bridge publishes to, and from where.
type Config struct {
	Kind   string // of the source, such as "couchdb", for checkpoints
	Source string // its URL, without credentials
	// Selection is a digest of what decides which changes are published: with another one, the
	// same place in the source stands for other documents.
	Selection string

	Store storage.Store // of the feed
	Feed  string        // its name
	// Index is the file of the index, which is made if it does not exist.
	Index string
	// MaxEntity puts bodies into quarantine that are larger, in bytes. 0: no limit.
	MaxEntity int64
	// Patience says how long the source is waited for.
	Patience Patience
	// Producer holds the settings of the feed's producer. Its MaxWaiting defaults to 2 MiB here.
	Producer producer.Config
	Log      *slog.Logger // nil: none
}

// A Bridge is the end of a bridge that the feed is at. Its methods may be called concurrently, but
// for those that read the feed or publish, of which one may be under way.
type Bridge struct {
	Index *Index
	Meter Meter
	// Sleep waits between attempts.
	Sleep func(context.Context, time.Duration) error

	config Config
	log    *slog.Logger
	pages  *chain.Reader
	feed   *producer.Feed
}

// Open returns a bridge. The caller closes it.
func Open(ctx context.Context, c Config) (*Bridge, error) {
	if c.Store == nil || c.Index == "" {
		return nil, errors.New("configure bridge: Store and Index are needed")
	}
	if err := layout.CheckName(c.Feed); err != nil {
		return nil, err
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	c.Producer.Logger = cmp.Or(c.Producer.Logger, c.Log)
	c.Producer.MaxWaiting = cmp.Or(c.Producer.MaxWaiting, 2<<20)
	b := &Bridge{config: c, log: c.Log, pages: chain.NewReader(c.Store, c.Feed), Sleep: backoff.Sleep}
	b.Meter.progress.Pending = -1
	var err error
	if b.Index, err = openIndex(c.Index, c.Kind); err != nil {
		return nil, err
	}
	if b.feed, err = producer.Open(ctx, c.Store, c.Feed, c.Producer); err != nil {
		return nil, errors.Join(err, b.Index.Close())
	}
	return b, nil
}

// Close waits for what is being published and closes what the bridge has opened.
func (b *Bridge) Close() error { return errors.Join(b.feed.Close(), b.Index.Close()) }

// NewID returns a random name.
func NewID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // it never fails
	return hex.EncodeToString(id[:])
}

// CatchUp fills the index and returns the feed's checkpoint.
func (b *Bridge) CatchUp(ctx context.Context) (at Checkpoint, err error) {
	if at, err = b.Index.catchUp(ctx, b.pages); err != nil {
		return at, err
	}
	if at.Begins() {
		at.Feed = NewID()
	}
	return at, nil
}

// Start fills the index and returns where to begin: the feed's checkpoint, with the last place up to
// which everything is in the feed, and the session that came there. If something else was published
// before, it is selected again from the source's beginning: then reselected is true, and there is no
// such place.
func (b *Bridge) Start(ctx context.Context) (at Checkpoint, reselected bool, err error) {
	if at, err = b.CatchUp(ctx); err != nil || at.Begins() {
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

// Repeat calls run, and again while another producer writes to the feed, which is read again then.
func (b *Bridge) Repeat(ctx context.Context, run func() error) error {
	for {
		err := run()
		if !errors.Is(err, producer.ErrCheckpoint) && !errors.Is(err, errMoved) || ctx.Err() != nil {
			return err
		}
		b.log.Warn("another producer has written to the feed, continuing from where it is now", "feed", b.config.Feed, "error", err)
		if err := b.Sleep(ctx, backoff.Jitter(time.Second)); err != nil {
			return err
		}
	}
}
