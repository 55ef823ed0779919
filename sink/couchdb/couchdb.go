package couchdb

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
	"github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/backoff"
	"github.com/feedctl/feedctl/internal/jsonscan"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/internal/content"
	"github.com/feedctl/feedctl/sink/internal/hostlock"
	"github.com/feedctl/feedctl/sink/internal/session"
	"github.com/feedctl/feedctl/sink/internal/spool"
)

// DefaultName is the default name of a consumer.
const DefaultName = "feedctl"

// consumerName matches valid names of consumers. The id of the checkpoint contains the name.
var consumerName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// A Sink is a [consumer.Sink] that writes to a database.
type Sink struct {
	*session.Sink
	target *target
}

// Rejected returns how many documents the database has refused since the sink was
// opened, and up to 3 of them.
func (s *Sink) Rejected() consumer.Rejected { return s.target.rejected }

// maxExamples limits the refusals that Rejected returns.
const maxExamples = 3

// Opener returns an opener of sinks that are named couchdb:URL or
// couchdb:URL?name=NAME. The other fields of the configuration are from c.
func Opener(c couchdb.Config) sink.Opener {
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

// Standings returns a function that reads the position of the consumer that the spec of a sink names. Unlike
// opening the sink, the function writes nothing, and it works while a consumer has the sink open.
func Standings(c couchdb.Config) func(context.Context, sink.Spec) ([]sink.Standing, error) {
	return func(ctx context.Context, s sink.Spec) ([]sink.Standing, error) {
		if err := s.CheckParams("name"); err != nil {
			return nil, err
		}
		config := c
		config.URL, config.Attempts = s.Path, 1
		name := cmp.Or(s.Params.Get("name"), DefaultName)
		db, err := couchdb.Open(config)
		if err != nil {
			return nil, fmt.Errorf("read sink %s: %w: %w", sink.Redact(s.String()), sink.ErrSpec, err)
		}
		stored, err := (&target{db: db, name: name}).read(ctx)
		if errors.Is(err, couchdb.ErrNotFound) {
			err = fmt.Errorf("there is no consumer %q, or no database: %w", name, fs.ErrNotExist)
		}
		if err != nil {
			return nil, fmt.Errorf("read sink couchdb:%s: %w", db.URL(), err)
		}
		return []sink.Standing{{Name: name, Position: stored.Position}}, nil
	}
}

// New returns a sink that writes to a database for the consumer with this name (empty:
// [DefaultName]). It opens the database, as [Open] does, when its Position is called, which a [consumer.Job]
// does first. The client should have Attempts 1, because the sink retries steps as a whole. The sink uses its
// logger and its directory for temporary files.
func New(db *couchdb.DB, name string) (*Sink, error) {
	return newSink(db, name, retryBudget{maxTries, backoff.Backoff{Min: minPause, Max: maxPause}})
}

// Open opens the database for the consumer with this name (empty: [DefaultName]). It creates the database if it
// does not exist, and completes an interrupted commit. The error matches [sink.ErrLocked] if the sink is open on
// this host; a sink that is open on another host is taken over. The error matches [sink.ErrUnavailable] if the
// server does not respond, or responds with 408, 425, 429 or 5xx.
func Open(ctx context.Context, c couchdb.Config, name string) (*Sink, error) {
	c.Attempts = cmp.Or(c.Attempts, 1) // steps are retried as a whole
	db, err := couchdb.Open(c)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", sink.ErrSpec, err)
	}
	s, err := New(db, name)
	if err != nil {
		return nil, err
	}
	if _, err := s.Position(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// maxTries is how many times a step is tried, within half a minute; openTries is how many times the sink tries
// to reach the server when it is opened, within 4 s.
const (
	maxTries  = 8
	openTries = 5
	minPause  = 250 * time.Millisecond
	maxPause  = 30 * time.Second
)

func newSink(db *couchdb.DB, name string, budget retryBudget) (*Sink, error) {
	name = cmp.Or(name, DefaultName)
	if !consumerName.MatchString(name) {
		return nil, fmt.Errorf("%w: name %q: want a letter or digit, then up to 63 letters, digits, dots, underscores and hyphens", sink.ErrSpec, name)
	}
	if logSuffix.MatchString(name) {
		return nil, fmt.Errorf("%w: name %q: the log of consumer %q may be stored under this name; choose one that does not end like this",
			sink.ErrSpec, name, logSuffix.ReplaceAllString(name, ""))
	}
	t := &target{
		db: db, name: name, retryBudget: budget, log: db.Logger(),
		batch: batch{json: jsonscan.NewReader(nil), spool: spool.Spool{Dir: db.SpoolDir()}},
	}
	return &Sink{session.New("couchdb:"+db.URL(), t), t}, nil
}

// A target is a database as one consumer sees it.
type target struct {
	db   *couchdb.DB
	name string // of the consumer
	log  *slog.Logger
	lock *hostlock.Lock
	retryBudget

	prepared bool       // the sink is locked, and the database exists
	state    checkpoint // as last read or written by this sink
	owned    bool       // this sink has written the checkpoint
	found    int64      // checkpoint.Writes before that
	parts    []string   // revisions of the parts of the log that this sink has written
	replaces bool       // many documents of the last step existed; see creates
	rejected consumer.Rejected
	vendor   string // of the server; "" if unknown

	batch
}

// A batch holds what has been applied, but not committed.
type batch struct {
	spool spool.Spool
	steps []*step
	last  map[string]*change // the last change of each document
	// expected holds the row that each change replaces, by key: nil if there was none; see Expect.
	expected map[string]*sink.Row
	body     content.Reader
	json     *jsonscan.Reader
	buf      []byte
}

func (t *target) Begin(context.Context) error { return t.forget() }

// Rollback drops the batch, none of which has been written yet.
func (t *target) Rollback(context.Context) error { return t.forget() }

func (t *target) forget() error {
	t.steps = nil
	t.last = map[string]*change{}
	t.expected = nil
	return t.spool.Reset()
}

// Recover completes an interrupted commit, and returns the position of the database.
func (t *target) Recover(ctx context.Context) (feed.Position, error) {
	err := cmp.Or(t.forget(), t.prepare(ctx))
	if err == nil {
		err = t.retry(ctx, t.tries, func(ctx context.Context) error {
			if err := t.own(ctx); err != nil {
				return err
			}
			return t.redo(ctx)
		})
	}
	return t.state.Position, err
}

var _ session.Remote = (*target)(nil)

// Unavailable reports whether an error means that the server is unavailable.
func (t *target) Unavailable(err error) bool { return couchdb.Retryable(err) }

// prepare locks the sink the first time, and creates the database if it does not exist (protocol,
// "Verify Peers").
func (t *target) prepare(ctx context.Context) error {
	if t.prepared {
		return nil
	}
	if t.lock == nil {
		lock, err := hostlock.Take("couchdb", t.db.URL()+"\n"+t.name)
		if err != nil {
			return err
		}
		t.lock = lock
	}
	err := t.retry(ctx, min(t.tries, openTries), t.db.Exists)
	if errors.Is(err, couchdb.ErrNotFound) {
		err = t.retry(ctx, t.tries, func(ctx context.Context) error {
			err := t.db.Create(ctx)
			if err == nil || errors.Is(err, couchdb.ErrPreconditionFailed) { // created by another client, or by an earlier attempt
				return nil
			}
			return fmt.Errorf("create database: %w", err)
		})
	}
	t.prepared = err == nil
	return err
}

// closeTimeout limits the requests of Close.
const closeTimeout = 5 * time.Second

// Close releases the lock and removes the log.
func (t *target) Close() error {
	err := t.spool.Reset()
	t.clean()
	t.db.CloseIdleConnections()
	return errors.Join(err, t.lock.Release())
}
