package kinto

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/feedctl/feedctl/bridge"
	"github.com/feedctl/feedctl/kinto"
)

// Errors that stop a bridge until an operator has resolved their cause.
var (
	// ErrGone means that the collection or bucket does not exist.
	ErrGone = errors.New("collection or bucket is gone")
	// ErrManyGone means that more records are missing than [Config.MaxGone] allows.
	ErrManyGone = errors.New("too many records are gone")
	// ErrRights means that the user may no longer read the collection.
	ErrRights = errors.New("no permission to read the collection")
)

// A Bridge publishes the changes of a collection. Its methods may be called concurrently, except Run
// and Retry: only one call of either may be in progress.
type Bridge struct {
	config Config
	core   *bridge.Bridge
}

// kind is the bridge's name in checkpoints.
const kind = "kinto"

// Open returns a bridge. It makes no request to the source unless the bucket is "default". The
// caller must close the bridge.
func Open(ctx context.Context, c Config) (*Bridge, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	bucket, err := resolve(ctx, c.Source.Server(), c.Source.Bucket())
	if err != nil {
		return nil, err
	}
	c.Source = c.Source.Server().Collection(bucket, c.Source.Name())
	core, err := bridge.Open(ctx, bridge.Config{
		Kind: kind, Source: c.Source.URL(), Latest: true,
		Store: c.Store, Feed: c.Feed, Index: c.Index, MaxEntity: c.MaxRecord, Producer: c.Producer, Log: c.Log,
		RetryPolicy: bridge.RetryPolicy{Retryable: kinto.Retryable, Away: away, Follow: c.Follow, Attempts: c.Attempts},
	})
	if err != nil {
		return nil, err
	}
	if c.waiting != nil {
		sleep := core.Sleep
		core.Sleep = func(ctx context.Context, d time.Duration) error {
			c.waiting()
			return sleep(ctx, d)
		}
	}
	return &Bridge{config: c, core: core}, nil
}

// resolve returns the id of a bucket. For "default", which is not an id, it requests the id from the
// server.
func resolve(ctx context.Context, server *kinto.Server, bucket string) (string, error) {
	if bucket != "default" {
		return bucket, nil
	}
	root, err := server.Root(ctx)
	if err == nil && root.User.Bucket == "" {
		err = errors.New("the server does not name the user's bucket: give credentials, or the id of a bucket")
	}
	if err != nil {
		return "", fmt.Errorf("find the default bucket: %w", err)
	}
	return root.User.Bucket, nil
}

// away reports whether the source as a whole may be unavailable for now.
func away(err error) bool {
	switch kinto.Status(err) {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	case 0:
		var network *net.OpError
		return errors.As(err, &network) && network.Op == "dial"
	}
	return false
}

// Close waits for pending publications and closes the bridge.
func (b *Bridge) Close() error { return b.core.Close() }

// Progress returns the progress of the bridge since it was opened.
func (b *Bridge) Progress() bridge.Progress { return b.core.Meter.Now() }

// A Report is the result of a run.
type Report struct {
	bridge.Progress
	// NoChanges is set if there was nothing to publish.
	NoChanges bool `json:"noChanges,omitempty"`
}

// Run publishes the new changes of the source: those that exist now or, with Config.Follow, all
// until ctx ends. Then it waits for pending publications.
//
// The error matches [bridge.ErrForeign] if the feed is not from this collection; it may also match
// [ErrGone], [ErrManyGone] or [ErrRights]. After any error, the next Run continues from the feed's
// checkpoint. The report is valid even if there is an error.
func (b *Bridge) Run(ctx context.Context) (Report, error) {
	err := b.core.Repeat(ctx, func() error {
		at, _, err := b.core.Start(ctx)
		if err != nil {
			return err
		}
		s, err := b.newRun(b.core.NewRun(at, bridge.NewID()), at)
		if err != nil {
			return err
		}
		return s.Do(ctx, s)
	})
	done := b.Progress()
	report := Report{Progress: done, NoChanges: done.Published == 0 && done.Quarantined == 0}
	if err != nil {
		return report, fmt.Errorf("bridge %s to feed %q: %w", b.config.Source.URL(), b.config.Feed, err)
	}
	return report, nil
}

// A run is one reading of the source.
type run struct {
	*bridge.Run
	*reader
	bridge  *Bridge
	partial bool   // the index does not have all records of the feed
	base    string // URL of attachments; empty: not known yet
}

func (b *Bridge) newRun(core *bridge.Run, at bridge.Checkpoint) (*run, error) {
	if !at.Begins() && at.Source != b.config.Source.URL() && !b.config.Moved {
		return nil, fmt.Errorf("%w: feed %q was filled from %s: publish to another feed, or use --moved if it is the same collection at another URL",
			bridge.ErrForeign, b.config.Feed, at.Source)
	}
	position, err := ParsePosition(at.Since)
	if err != nil {
		return nil, err
	}
	s := &run{Run: core, bridge: b}
	if s.partial, err = b.core.Index.Partial(); err != nil {
		return nil, err
	}
	s.reader = &reader{bridge: b, run: s, at: position, begins: at.Since == nil, limit: maxLimit}
	return s, nil
}

// State returns the members of the checkpoint in addition to those of every bridge: none.
func (s *run) State() any { return struct{}{} }

// Close releases nothing: rows are in memory.
func (s *run) Close() error { return nil }

func settled(context.Context) {}
