package couchdb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/feedctl/feedctl/bridge"
	"github.com/feedctl/feedctl/bridge/couchdb/changes"
	"github.com/feedctl/feedctl/couchdb"
)

// A Bridge publishes the changes of a database. Its methods may be called concurrently,
// except Run and Retry: only one call of either may be in progress.
type Bridge struct {
	config Config
	core   *bridge.Bridge
	log    *replicationLog
	// heartbeat is the interval of heartbeats, and the shortest interval between two checks of
	// whether the bridge has caught up.
	heartbeat time.Duration
}

// Open returns a bridge. It makes no request to the source. The caller must close the bridge.
func Open(ctx context.Context, c Config) (*Bridge, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	selection, err := c.selection()
	if err != nil {
		return nil, fmt.Errorf("configure bridge: %w", err)
	}
	core, err := bridge.Open(ctx, bridge.Config{
		Kind: kind, Source: c.Source.URL(), Selection: selection,
		Store: c.Store, Feed: c.Feed, Index: c.Index, MaxEntity: c.MaxDocument, Producer: c.Producer, Log: c.Log,
		RetryPolicy: bridge.RetryPolicy{Retryable: couchdb.Retryable, Away: away, Follow: c.Follow, Attempts: c.Attempts},
	})
	if err != nil {
		return nil, err
	}
	log := &replicationLog{source: c.Source, target: c.Target, selection: selection, report: c.Log, meter: &core.Meter}
	return &Bridge{config: c, core: core, log: log, heartbeat: heartbeat}, nil
}

// kind is the bridge's name in checkpoints.
const kind = "couchdb"

// Close waits for pending publications and closes the bridge.
func (b *Bridge) Close() error { return b.core.Close() }

// Progress returns the progress of the bridge since it was opened.
func (b *Bridge) Progress() bridge.Progress { return b.core.Meter.Now() }

// A Report is the result of a run. Its JSON has the members that the protocol defines ("Replication
// Completed").
type Report struct {
	bridge.Progress
	// Log is a replication log with the session at the head of its history.
	couchdb.Log
	// NoChanges is set if there was nothing to publish.
	NoChanges bool `json:"no_changes,omitempty"`
}

// Run publishes the new changes of the source: those that exist now or, with Config.Follow,
// all until ctx ends. Then it waits for pending publications.
//
// The error matches [changes.ErrRecreated] if the database was deleted and created again,
// and [bridge.ErrForeign] if the feed is not from this database. After any error, the next Run
// continues from the feed's checkpoint. The report is valid even if there is an error.
func (b *Bridge) Run(ctx context.Context) (Report, error) {
	begun := time.Now()
	var session string
	var start, reached json.RawMessage
	first, behind := true, false
	err := b.core.Repeat(ctx, func() error {
		for {
			session = bridge.NewID()
			s, err := b.newRun(ctx, session)
			if err != nil {
				return err
			}
			s.origin.behind = behind
			b.log.begin(session, begun, s.since)
			err = s.Do(ctx, s)
			from, to := s.Places()
			if first {
				start, first = from, false
			}
			reached = to
			if behind = errors.Is(err, errBehind); !behind || ctx.Err() != nil {
				return err
			}
			b.config.Log.Info("comparing the source with the feed again", "feed", b.config.Feed, "reason", err)
		}
	})
	if reached == nil {
		reached = start
	}
	done := b.Progress()
	// Without rows, the position is the same, even if the source sends a different sequence.
	if done.Rows > 0 && !errors.Is(err, changes.ErrRecreated) {
		b.log.write(context.WithoutCancel(ctx), reached)
	}
	report := Report{Progress: done, NoChanges: done.Published == 0 && done.Quarantined == 0}
	report.Log.Record(sessionOf(done, session, begun, start, reached))
	if errors.Is(err, changes.ErrRecreated) {
		err = fmt.Errorf("%w; publish it to another feed, because its revisions could be mistaken for those of the old database", err)
	}
	if err != nil {
		return report, fmt.Errorf("bridge %s to feed %q: %w", b.config.Source.URL(), b.config.Feed, err)
	}
	return report, nil
}

// A run is one reading of the source.
type run struct {
	*bridge.Run
	*reader
	state state
}

// A state has the members of a checkpoint in addition to those of [bridge.Checkpoint].
type state struct {
	Instance string `json:"instance,omitempty"`
	// Log is the id of the replication log, which changes with the store of the feed.
	Log string `json:"log,omitempty"`
	// Known is a record that the replication log had before the checkpoint was written.
	Known *mark `json:"known,omitempty"`
	// Conflicts is set if all leaf revisions were published.
	Conflicts bool `json:"conflicts,omitempty"`
}

// State returns the state for the next checkpoint.
func (s *run) State() any {
	s.state.Known, s.state.Log = s.bridge.log.known.Load(), s.bridge.log.id(s.bridge.config.Source.URL())
	return s.state
}

// newRun returns a run that continues from the feed's checkpoint.
func (b *Bridge) newRun(ctx context.Context, session string) (*run, error) {
	at, reselected, err := b.core.Start(ctx)
	if err != nil {
		return nil, err
	}
	s, from, err := b.prepare(b.core.NewRun(at, session), at)
	if err != nil {
		return nil, err
	}
	if reselected {
		from.known, from.log = nil, ""
	}
	s.state.Conflicts = b.config.Conflicts
	s.reader = newReader(b, s, from)
	return s, nil
}

// prepare returns a run without its reader, and its origin according to the checkpoint.
func (b *Bridge) prepare(core *bridge.Run, at bridge.Checkpoint) (*run, origin, error) {
	s := &run{Run: core}
	if err := at.State(&s.state); err != nil {
		return nil, origin{}, err
	}
	from := origin{since: at.Since, session: at.Session, known: s.state.Known, log: s.state.Log, source: at.Source}
	if from.source == b.config.Source.URL() {
		from.source = ""
	}
	b.log.known.Store(nil)
	return s, from, nil
}

// piece returns a piece that publishes a batch of rows.
func (s *run) piece(p *piece, before, after json.RawMessage, instance string) *bridge.Piece {
	return &bridge.Piece{
		Before: before, After: after,
		Publish: func(ctx context.Context) error {
			s.state.Instance = instance
			for _, thing := range p.bad {
				if err := s.reject(ctx, thing); err != nil {
					return err
				}
			}
			for i := range p.wants {
				if err := s.publishWant(ctx, &p.wants[i]); err != nil {
					return err
				}
			}
			return nil
		},
		Settled: func(ctx context.Context) {
			s.open.Delete(p.batch)
			p.batch.Close()
			if s.only == nil {
				s.bridge.log.tick(ctx, after)
			}
		},
	}
}

// reject puts a document or row into quarantine, with the options for reading it again.
func (s *run) reject(ctx context.Context, thing bridge.Quarantined) (err error) {
	filter := s.bridge.config.Filter
	filter.DocIDs = nil // may be many, and thing.ID is one of them
	if thing.Options, err = json.Marshal(s.bridge.config.Options); err == nil {
		thing.Filter, err = json.Marshal(filter)
	}
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	if string(thing.Filter) == "{}" {
		thing.Filter = nil
	}
	return s.Reject(ctx, thing)
}
