package couchdb

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/feedctl/feedctl/bridge/couchdb/changes"
	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/internal/backoff"
	"github.com/feedctl/feedctl/producer"
)

// A Bridge publishes the changes of a database. Its methods may be called concurrently,
// but for Run and Retry, of which one call may be under way.
type Bridge struct {
	config     Config
	selection  string
	index      *index
	pages      *chain.Reader
	feed       *producer.Feed
	quarantine *quarantine
	meter      meter
	log        *replicationLog
	pause      func(context.Context, time.Duration) error
}

// Open returns a bridge. It makes no request to the source. The caller closes it.
func Open(ctx context.Context, c Config) (*Bridge, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	b := &Bridge{
		config: c, pages: chain.NewReader(c.Store, c.Feed), pause: backoff.Sleep,
		quarantine: &quarantine{store: c.Store, feed: c.Feed, pause: backoff.Sleep},
	}
	b.meter.progress.Pending = -1
	if b.selection, err = c.selection(); err != nil {
		return nil, fmt.Errorf("configure bridge: %w", err)
	}
	b.log = newReplicationLog(c.Source, c.Target, b.selection, c.Log)
	if b.index, err = openIndex(c.Index); err != nil {
		return nil, err
	}
	if b.feed, err = producer.Open(ctx, c.Store, c.Feed, c.Producer); err != nil {
		return nil, errors.Join(err, b.index.Close())
	}
	return b, nil
}

// Close waits for what is being published and closes what the bridge has opened.
func (b *Bridge) Close() error { return errors.Join(b.feed.Close(), b.index.Close()) }

// Progress returns how far the bridge has come.
func (b *Bridge) Progress() Progress { return b.meter.now() }

// Run publishes what is new in the source: all there is now or, with Config.Follow, until
// ctx ends. What it has begun to publish then, it finishes.
//
// The error matches [changes.ErrRecreated] if the database was deleted and created again,
// and [ErrForeign] if the feed is not this database's. After any error, Run goes on from
// where the feed is. The report is right with an error as well.
func (b *Bridge) Run(ctx context.Context) (Report, error) {
	begun := time.Now()
	var session string
	var start, reached json.RawMessage
	var err error
	behind := false
	for first := true; ; first = false {
		var s *run
		session = newID()
		if s, err = b.newRun(ctx, session); err != nil {
			break
		}
		s.reader.origin.behind = behind
		b.log.begin(session, begun, s.reader.since, &b.meter)
		err = s.run(ctx)
		if first {
			start = s.start
		}
		reached = s.reached()
		if behind = errors.Is(err, errBehind); behind && ctx.Err() == nil {
			b.config.Log.Info("comparing the source with the feed again", "feed", b.config.Feed, "reason", err)
			continue
		}
		if !overtaken(err) || ctx.Err() != nil {
			break
		}
		b.config.Log.Warn("another producer has written to the feed: continuing from where it is now", "feed", b.config.Feed, "error", err)
		if err = b.pause(ctx, backoff.Jitter(time.Second)); err != nil {
			break
		}
	}
	if reached == nil {
		reached = start
	}
	done := b.meter.now()
	// Without rows, the place is the same, even if the source names it anew.
	if done.Rows > 0 && !errors.Is(err, changes.ErrRecreated) {
		b.log.write(context.WithoutCancel(ctx), reached)
	}
	report := Report{Progress: done, NoChanges: done.Published == 0 && done.Quarantined == 0}
	report.Log.Record(b.meter.session(session, begun, start, reached))
	if errors.Is(err, changes.ErrRecreated) {
		err = fmt.Errorf("%w; its revisions would be taken for those of the old one, so publish it to another feed", err)
	}
	if err != nil {
		return report, fmt.Errorf("bridge %s to feed %q: %w", b.config.Source.URL(), b.config.Feed, err)
	}
	return report, nil
}

// overtaken reports whether a run has ended because of another one, after which the feed is
// looked at anew.
func overtaken(err error) bool {
	return errors.Is(err, producer.ErrCheckpoint) || errors.Is(err, errMoved)
}

func newID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // it never fails
	return hex.EncodeToString(id[:])
}

// catchUp fills the index and returns where the feed is.
func (b *Bridge) catchUp(ctx context.Context) (at checkpoint, encoded []byte, err error) {
	if at, encoded, err = b.index.catchUp(ctx, b.pages); err != nil {
		return at, nil, err
	}
	if at.begins() {
		at.Feed = newID()
	}
	return at, encoded, nil
}

// start finds where to begin: where the feed is, as the index has it. The session of the
// checkpoint is the one that has come there.
func (b *Bridge) start(ctx context.Context) (at checkpoint, encoded []byte, err error) {
	if at, encoded, err = b.catchUp(ctx); err != nil || at.begins() {
		return at, encoded, err
	}
	resting, err := b.index.rested()
	switch {
	case err != nil:
		return at, nil, err
	case bytes.Equal(resting.Checkpoint, encoded) && resting.Selection == b.selection:
		at.Since, at.Session = resting.Since, cmp.Or(resting.Session, at.Session)
	case at.Selection != b.selection:
		b.config.Log.Info("something else is published than before: reading the source from its beginning", "feed", b.config.Feed)
		at.Since, at.Known = nil, nil
	}
	return at, encoded, nil
}

func (b *Bridge) foreign(source string) error {
	return fmt.Errorf("%w: feed %q was filled from %s, and the replication log of %s does not know that: publish to another feed, or use --moved if it is the same database at another place",
		ErrForeign, b.config.Feed, source, b.config.Source.URL())
}

// follow returns the options of the changes feed.
func (b *Bridge) follow(kind changes.Feed, since json.RawMessage, instance string) changes.Options {
	c := &b.config
	o := changes.Options{
		Feed: kind, Since: since, Instance: instance,
		AllDocs: c.Conflicts,
		Filter:  c.Filter.Name, View: c.Filter.View, DocIDs: c.Filter.DocIDs,
		Selector: c.Filter.Selector, Query: c.Filter.Query,
		IncludeDocs: !c.Revs && !c.Conflicts,
		BatchRows:   batchRows, BatchBytes: batchBytes,
		Heartbeat: heartbeat, Log: c.Log,
	}
	if kind == changes.Normal {
		o.SeqInterval = batchRows // a place with each batch is all that is needed
		o.PageRows = pageRows
	}
	return o
}

// heartbeat is how often a source should show that it is there. One that misses three is not.
const heartbeat = 5 * time.Second

// How much of the changes feed is read at a time. Pages have some servers gather the next
// rows while those before are published.
const (
	pageRows   = 2000
	batchRows  = 1000
	batchBytes = 1 << 20
)

// kinds returns the kinds of changes feed to read, one after the other: the one that
// ends is the cheapest for all there is.
func (b *Bridge) kinds() []changes.Feed {
	switch {
	case !b.config.Follow:
		return []changes.Feed{changes.Normal}
	case b.config.LongPoll:
		return []changes.Feed{changes.Normal, changes.LongPoll}
	}
	return []changes.Feed{changes.Normal, changes.Continuous}
}
