package kinto

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"regexp"
	"time"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/backoff"
	"github.com/feedctl/feedctl/kinto"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/internal/content"
	"github.com/feedctl/feedctl/sink/internal/hostlock"
	"github.com/feedctl/feedctl/sink/internal/session"
	"github.com/feedctl/feedctl/sink/internal/spool"
)

// DefaultName is the default name of a consumer.
const DefaultName = "feedctl"

// consumerName matches valid names of consumers.
var consumerName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// A Sink is a [consumer.Sink] that writes to a collection.
type Sink struct {
	*session.Sink
	target *target
}

// Rejected returns how many records the server has refused since the sink was opened, and up
// to 3 of them.
func (s *Sink) Rejected() consumer.Rejected { return s.target.rejected }

// Opener returns an opener of sinks that are named kinto:URL or kinto:URL?name=NAME. The other
// fields of the configuration are from c.
func Opener(c kinto.Config) sink.Opener {
	return func(ctx context.Context, s sink.Spec) (consumer.Sink, error) {
		if err := s.CheckParams("name"); err != nil {
			return nil, err
		}
		config := c
		config.URL = s.Path
		opened, err := Open(ctx, config, s.Params.Get("name"))
		switch {
		case errors.Is(err, sink.ErrSpec):
			return nil, fmt.Errorf("open sink %s: %w", sink.Redact(s.String()), err)
		case err != nil:
			return nil, err // not a nil *Sink in an interface
		}
		return opened, nil
	}
}

// Check returns an error that says what is wrong with a spec, if that can be known without a request.
// The error matches [sink.ErrSpec].
func Check(s sink.Spec) error {
	if err := s.CheckParams("name"); err != nil {
		return err
	}
	if name := s.Params.Get("name"); name != "" && !consumerName.MatchString(name) {
		return nameError(name)
	}
	if _, err := kinto.Open(kinto.Config{URL: s.Path}); err != nil {
		return fmt.Errorf("open sink %s: %w: %w", sink.Redact(s.String()), sink.ErrSpec, err)
	}
	return nil
}

func nameError(name string) error {
	return fmt.Errorf("%w: name %q: want a letter or digit, then up to 63 letters, digits, dots, underscores and hyphens", sink.ErrSpec, name)
}

// Standings returns a function that reads the position of the consumer that the spec of a sink names. Unlike
// opening the sink, the function writes nothing, and it works while a consumer has the sink open.
func Standings(c kinto.Config) func(context.Context, sink.Spec) ([]sink.Standing, error) {
	return func(ctx context.Context, s sink.Spec) ([]sink.Standing, error) {
		if err := Check(s); err != nil {
			return nil, err
		}
		config := c
		config.URL, config.Attempts = s.Path, 1
		name := cmp.Or(s.Params.Get("name"), DefaultName)
		to, err := kinto.Open(config)
		if err != nil {
			return nil, fmt.Errorf("read sink %s: %w: %w", sink.Redact(s.String()), sink.ErrSpec, err)
		}
		stored, err := newTarget(to, name, nil, retryBudget{}).read(ctx)
		if errors.Is(err, kinto.ErrNotFound) {
			err = fmt.Errorf("there is no consumer %q: %w", name, fs.ErrNotExist)
		}
		if err != nil {
			return nil, fmt.Errorf("read sink kinto:%s: %w", to.URL(), err)
		}
		return []sink.Standing{{Name: name, Position: stored.Position}}, nil
	}
}

// Open opens the collection for the consumer with this name (empty: [DefaultName]). It creates the
// collection if it does not exist; the bucket must. The error matches [sink.ErrLocked] if the sink
// is open on this host; a sink that is open on another host is taken over. The error matches
// [sink.ErrUnavailable] if the server does not respond, or responds with 408, 425, 429 or 5xx.
func Open(ctx context.Context, c kinto.Config, name string) (*Sink, error) {
	return open(ctx, c, name, retryBudget{maxTries, backoff.Backoff{Min: minPause, Max: maxPause}, lateness, deletionDelay})
}

const (
	// maxTries is how many times a request is made, within half a minute.
	maxTries = 8
	minPause = 250 * time.Millisecond
	maxPause = 30 * time.Second
	// lateness is how long a server may take to carry out a request whose client is gone.
	lateness = time.Second
	// deletionDelay is retryBudget.deleteAfter.
	deletionDelay = 10 * time.Second
)

// A retryBudget limits how many times a request is made, and sets the pauses between attempts and how
// long to wait for a request that may have been lost.
type retryBudget struct {
	tries  int
	pauses backoff.Backoff
	late   time.Duration
	// deleteAfter is how long the deletion of a record waits if a lost request may create the record.
	deleteAfter time.Duration
}

func open(ctx context.Context, c kinto.Config, name string, budget retryBudget) (*Sink, error) {
	name = cmp.Or(name, DefaultName)
	if !consumerName.MatchString(name) {
		return nil, nameError(name)
	}
	c.Attempts = 1 // what is repeated depends on what the server has stored
	c.MaxRecord = 6 * maxDigest
	to, err := kinto.Open(c)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", sink.ErrSpec, err)
	}
	t := newTarget(to, name, loggerOf(c), budget)
	s, err := session.Open(ctx, "kinto:"+to.URL(), t)
	if err != nil {
		return nil, err
	}
	return &Sink{s, t}, nil
}

func loggerOf(c kinto.Config) *slog.Logger { return cmp.Or(c.Log, slog.New(slog.DiscardHandler)) }

func newTarget(to *kinto.Collection, name string, log *slog.Logger, budget retryBudget) *target {
	return &target{
		to: to, server: to.Server(), positions: to.Server().Collection(to.Bucket(), positionsName),
		name: name, log: log, retryBudget: budget, staged: staged{last: map[string]*change{}}, doubts: map[string]time.Time{},
	}
}

// A target is a collection as one consumer sees it.
type target struct {
	to        *kinto.Collection
	positions *kinto.Collection
	server    *kinto.Server
	name      string // of the consumer
	log       *slog.Logger
	lock      *hostlock.Lock
	retryBudget

	most     int   // changes of a chunk; 0 before the sink is opened
	state    state // as last read or written by this sink
	owned    bool  // this sink has written the position
	changed  int64 // changes that the server has made
	doubts   map[string]time.Time
	rejected consumer.Rejected
	refused  []consumer.Refusal // that are not in the stored state yet

	staged
}

// A staged holds what has been applied, but not committed.
type staged struct {
	spool  spool.Spool
	chunks []*chunk
	last   map[string]*change // the last change of each record
	body   content.Reader
	// expected holds the stamps that records must have, by key, in a batch that leaves the position
	// alone.
	expected map[string]int64
}

func (t *target) Begin(context.Context) error { return t.forget() }

// Rollback drops the batch, none of which has been written yet.
func (t *target) Rollback(context.Context) error { return t.forget() }

func (t *target) forget() error {
	t.chunks, t.expected = nil, nil
	clear(t.last)
	return t.spool.Reset()
}

// Recover returns the position of the collection.
func (t *target) Recover(ctx context.Context) (feed.Position, error) {
	err := t.forget()
	if err == nil && t.lock == nil {
		t.lock, err = hostlock.Take("kinto", t.to.URL()+"\n"+t.name)
	}
	if err == nil {
		err = t.retry(ctx, t.own)
	}
	return t.state.Position, err
}

var (
	_ session.Remote      = (*target)(nil)
	_ session.GuardTarget = (*target)(nil)
)

// Unavailable reports whether an error means that the server is unavailable.
func (t *target) Unavailable(err error) bool { return kinto.Retryable(err) }

// retry calls do until it succeeds, fails with an error that is not retryable, or has been
// called t.tries times.
func (t *target) retry(ctx context.Context, do func(context.Context) error) error {
	for n := 1; ; n++ {
		err := do(ctx)
		if err == nil || n >= t.tries || !kinto.Retryable(err) {
			return err
		}
		if t.pause(ctx, n, err) != nil {
			return err
		}
	}
}

// pause waits before the next try.
func (t *target) pause(ctx context.Context, n int, err error) error {
	pause := t.pauses.After(n)
	t.log.WarnContext(ctx, "write failed, retrying", "collection", t.to.URL(), "error", err, "try", n, "pause", pause)
	return backoff.Sleep(ctx, pause)
}

// Close releases the lock.
func (t *target) Close() error {
	err := t.spool.Reset()
	t.server.CloseIdleConnections()
	lock := t.lock
	t.lock = nil
	return errors.Join(err, lock.Release())
}
