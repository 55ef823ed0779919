package kinto

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/feedctl/feedctl/bridge"
	"github.com/feedctl/feedctl/kinto"
)

// How many rows a page may have. The server may have a lower limit.
const (
	maxLimit  = 10000
	minLimit  = 100
	tailLimit = 1000 // for the first page newest first
)

// A reader reads a collection.
type reader struct {
	bridge *Bridge
	run    *run
	at     Position // after the pieces that were sent
	begins bool     // nothing is in the feed yet
	ready  bool     // the first request was successful
	limit  int      // rows per page, fewer after failures

	stamp      int64     // of the collection, whose changes have been read; 0: request without a condition
	overlapped time.Time // when the last two windows were last read again
	quiet      int       // how many times that was done since the collection last changed
	lower      time.Time // when the stamp of the collection was first seen to be lower; zero: it is not lower
	counted    bool      // the number of records was compared since the collection last changed
	behind     bool      // there are changes newer than those that were read
	tailToken  string    // of the next page, newest first
	replaced   *metadata // of the collection, if it is the reason to compare all records
}

// lateAt is an age: no more changes appear with stamps that are older than this, whatever the clocks
// say.
const lateAt = 24 * time.Hour

// errLower means that the stamp of the collection is lower than it was.
var errLower = errors.New("stamp of the collection is lower than before")

// Read sends pieces until there are no more changes or, with Follow, ctx ends.
func (r *reader) Read(ctx context.Context, pieces chan<- *bridge.Piece) error {
	c := &r.bridge.config
	for failed := 0; ; {
		err := r.step(ctx, pieces)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil:
			failed = 0
			if r.behind || r.at.Tail != 0 {
				continue
			}
			if !c.Follow {
				return nil
			}
			if err := r.bridge.core.Sleep(ctx, c.Interval); err != nil {
				return context.Cause(ctx)
			}
			continue
		case !sourceFailed(err):
			return err
		}
		r.limit, r.stamp = max(r.limit/2, minLimit), 0
		failed++
		if err := r.bridge.core.AskAgain(ctx, failed, err); err != nil {
			return err
		}
	}
}

// step reads the changes, and a page of older records if there are any to be read.
func (r *reader) step(ctx context.Context, pieces chan<- *bridge.Piece) error {
	if !r.ready {
		if err := r.start(ctx, pieces); err != nil {
			return r.explain(ctx, pieces, err)
		}
		r.ready = true
	}
	err := r.poll(ctx, pieces)
	if err == nil && r.at.Tail != 0 {
		err = r.tailPage(ctx, pieces)
	}
	return r.explain(ctx, pieces, err)
}

// start compares the collection with the checkpoint before its changes are read.
func (r *reader) start(ctx context.Context, pieces chan<- *bridge.Piece) error {
	sign, err := r.checkMetadata(ctx)
	if err != nil {
		return err
	}
	c := &r.bridge.config
	switch kept := c.TombstonesKept; {
	case r.begins:
		if err := r.startFill(ctx, pieces); err != nil {
			return err
		}
		r.begins = false
		return nil
	case sign != "":
	case c.ReconcileNow:
		sign = "a comparison was requested"
	case c.Reconcile > 0 && age(r.at.Reconciled) > c.Reconcile && r.at.Reconciled != 0:
		sign = "the reconcile period is over"
	case kept > 0 && age(r.at.Polled) > kept:
		sign = "tombstones may have been purged"
	}
	if sign == "" || r.at.Tail != 0 {
		return nil
	}
	return r.reconcile(ctx, pieces, sign)
}

// startFill begins to read newest first, if Config.NewestFirst is set.
func (r *reader) startFill(ctx context.Context, pieces chan<- *bridge.Piece) error {
	if !r.bridge.config.NewestFirst {
		return nil
	}
	head, err := r.bridge.head(ctx)
	if err != nil {
		return err
	}
	if head.Stamp == 0 || inFuture(head.Stamp) { // the server would refuse the stamp as a bound
		return nil
	}
	r.at.Since, r.at.Stamp, r.at.Tail = head.Stamp, head.Stamp, head.Stamp
	return r.tailPage(ctx, pieces)
}

// inFuture reports whether the server may refuse a stamp as a bound, because it is more than a day
// ahead.
func inFuture(stamp int64) bool { return time.UnixMilli(stamp).After(time.Now().Add(23 * time.Hour)) }

// poll reads the changes since the position.
func (r *reader) poll(ctx context.Context, pieces chan<- *bridge.Piece) error {
	if inFuture(r.at.Since) {
		return r.pollFuture(ctx, pieces)
	}
	window := r.bridge.config.Window
	overlap := r.overlapped.IsZero() || r.quiet < 2 && time.Since(r.overlapped) >= window
	q := kinto.Query{Sort: kinto.OldestFirst, Tombstones: true, Min: r.at.Since, IfNoneMatch: r.stamp}
	begun := time.Now()
	since, known := r.at.Since, r.at.ID
	if overlap {
		q.IfNoneMatch = 0
		if time.Since(time.UnixMilli(since)) < lateAt {
			q.Min = max(since-2*window.Milliseconds(), 0)
		}
	}
	var sign string
	l := &listing{reader: r, pieces: pieces, begun: func(p kinto.Page) (err error) {
		if p.NotModified {
			return nil
		}
		newest := Position{Since: p.Stamp}.encode()
		r.run.count(func(p *bridge.Progress) { p.Newest = string(newest) })
		if p.Stamp != 0 && p.Stamp < r.at.Stamp {
			return errLower
		}
		sign, err = r.checkMetadata(ctx)
		return err
	}}
	err := l.read(ctx, q)
	r.heard()
	if overlap && (err == nil || l.top >= since && l.top > 0) {
		r.overlapped = begun
	}
	switch {
	case errors.Is(err, errLower):
		return r.pollLower(ctx, pieces)
	case err != nil:
		return err
	}
	r.limit = min(2*r.limit, maxLimit)
	r.lower = time.Time{}
	if l.first.NotModified {
		r.idle()
		return r.checkPeriod(ctx, pieces)
	}
	if l.first.Stamp != r.stamp {
		r.quiet, r.counted = 0, false
	} else if overlap {
		r.quiet++
	}
	if r.behind = l.first.Stamp != 0 && l.top > l.first.Stamp; r.behind {
		return nil
	}
	if sign == "" && r.at.Stamp != 0 && l.first.Stamp > r.at.Stamp && l.top < l.first.Stamp {
		sign = "the stamp of the collection has grown without a change"
	}
	if sign == "" && known != "" && !l.seen {
		sign = "the newest record that was read is missing"
	}
	if sign != "" && r.at.Tail == 0 {
		return r.reconcile(ctx, pieces, sign)
	}
	if r.at.Reconciled == 0 && r.at.Tail == 0 {
		err := r.wait(ctx, pieces, func(ctx context.Context, _ *Position) error { return r.run.publishLookalikes(ctx) })
		if err != nil {
			return err
		}
	}
	if err := r.finish(ctx, pieces, l.first.Stamp); err != nil || r.at.Tail != 0 {
		return err
	}
	if sign, err = r.compareCount(ctx, pieces, overlap); err != nil {
		return err
	}
	if sign != "" {
		return r.reconcile(ctx, pieces, sign)
	}
	if r.quiet > 0 {
		r.idle()
	}
	return r.checkPeriod(ctx, pieces)
}

// finish records that all changes up to a stamp have been read.
func (r *reader) finish(ctx context.Context, pieces chan<- *bridge.Piece, stamp int64) error {
	to := r.at
	to.Stamp, to.Polled = stamp, time.Now().Unix()
	if to.Reconciled == 0 { // the first fill is a comparison
		to.Reconciled = to.Polled
	}
	p := r.at.piece(to)
	p.Publish = func(context.Context) error { return nil }
	if err := r.send(ctx, pieces, p); err != nil {
		return err
	}
	r.at, r.stamp = to, stamp
	return nil
}

// compareCount compares the number of records with that of the feed, once after each change of the
// collection. It returns a reason to reconcile.
func (r *reader) compareCount(ctx context.Context, pieces chan<- *bridge.Piece, overlap bool) (string, error) {
	if r.counted || !overlap {
		return "", nil
	}
	// What was read is still being published meanwhile.
	head, err := r.bridge.head(ctx)
	if err != nil || head.Stamp != r.stamp { // it has changed: count again later
		return "", err
	}
	var live int64
	err = r.wait(ctx, pieces, func(ctx context.Context, at *Position) (err error) {
		if err = r.run.SettleAll(ctx); err == nil {
			live, err = r.bridge.core.Index.Count()
		}
		if err == nil && at.Uncounted {
			at.Missing, at.Uncounted = head.Total-live, false
		}
		return err
	})
	if err != nil {
		return "", err
	}
	r.counted = true
	if head.Total-live == r.at.Missing {
		return "", nil
	}
	return fmt.Sprintf("the collection has %d records, the feed %d", head.Total, live), nil
}

// checkPeriod reconciles if the last comparison was longer ago than the period.
func (r *reader) checkPeriod(ctx context.Context, pieces chan<- *bridge.Piece) error {
	if period := r.bridge.config.Reconcile; period <= 0 || age(r.at.Reconciled) <= period || r.at.Tail != 0 {
		return nil
	}
	return r.reconcile(ctx, pieces, "the reconcile period is over")
}

// pollLower handles a stamp that is lower than before: the server was restored from a backup,
// tombstones were purged, or a replica lags behind.
func (r *reader) pollLower(ctx context.Context, pieces chan<- *bridge.Piece) error {
	r.behind = false
	if r.lower.IsZero() {
		r.lower = time.Now()
		r.bridge.config.Log.Warn("stamp of the collection is lower than before", "source", r.bridge.config.Source.URL(), "known", r.at.Stamp)
	}
	if r.bridge.config.Follow && time.Since(r.lower) < r.bridge.config.Window {
		return nil
	}
	return r.reconcile(ctx, pieces, "the stamp of the collection is lower than before")
}

// pollFuture reads changes of a collection with stamps more than a day ahead, which the server does
// not accept as bounds: all ids are compared whenever the stamp of the collection has changed.
func (r *reader) pollFuture(ctx context.Context, pieces chan<- *bridge.Piece) error {
	head, err := r.bridge.head(ctx)
	r.heard()
	r.behind = false
	switch {
	case err != nil:
		return err
	case head.Stamp == r.at.Stamp:
		r.idle()
		return r.checkPeriod(ctx, pieces)
	}
	return r.reconcile(ctx, pieces, "a record has a stamp in the future")
}

// explain handles an error that means that the collection, or the right to read it, is gone. It
// returns nil if nothing is left to do.
func (r *reader) explain(ctx context.Context, pieces chan<- *bridge.Piece, err error) error {
	e, ok := errors.AsType[*kinto.Error](err)
	if _, file := errors.AsType[*fileError](err); !ok || file {
		return err
	}
	c := &r.bridge.config
	switch e.Status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("%w: %w", ErrRights, err)
	case http.StatusNotFound:
		if missing := e.Missing(); missing != "collection" && missing != "bucket" {
			return err
		}
		if c.OnGone == Stop || r.begins {
			return fmt.Errorf("%w: %w: create it again, or use --on-gone delete to delete its records from the feed", ErrGone, err)
		}
		return r.deleteAll(ctx, pieces)
	}
	return err
}

// deleteAll deletes all records from the feed.
func (r *reader) deleteAll(ctx context.Context, pieces chan<- *bridge.Piece) error {
	r.stamp, r.overlapped, r.behind, r.ready = 0, time.Time{}, false, false
	return r.wait(ctx, pieces, func(ctx context.Context, at *Position) error {
		index := r.bridge.core.Index
		if err := errors.Join(r.run.SettleAll(ctx), index.Mark()); err != nil {
			return err
		}
		n := 0
		for ids, err := range index.Unmarked() {
			if err != nil {
				return err
			}
			for _, id := range ids {
				if err := r.run.removeGone(ctx, id); err != nil {
					return err
				}
				n++
			}
		}
		*at = Position{Polled: time.Now().Unix(), Reconciled: time.Now().Unix()}
		if n > 0 {
			r.bridge.config.Log.Warn("collection is gone, deleted its records from the feed", "source", r.bridge.config.Source.URL(), "feed", r.bridge.config.Feed, "deleted", n)
		}
		return nil
	})
}

// wait sends a piece that is published by calling f, and waits until f has returned. An error of the
// source is returned, and does not end the run; what f published before the error is kept. f may change
// the position.
func (r *reader) wait(ctx context.Context, pieces chan<- *bridge.Piece, f func(ctx context.Context, at *Position) error) error {
	done := make(chan error, 1)
	to := r.at
	p := r.at.piece(to)
	p.Publish = func(ctx context.Context) error {
		err := f(ctx, &to)
		if err == nil {
			p.After = to.encode()
		}
		done <- err
		if err != nil && (sourceFailed(err) || kinto.Status(err) != 0 || errors.Is(err, ErrManyGone)) {
			return nil // the reader returns it
		}
		return err
	}
	if err := r.send(ctx, pieces, p); err != nil {
		return err
	}
	select {
	case err := <-done:
		if err == nil {
			r.at = to
		}
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (r *reader) send(ctx context.Context, pieces chan<- *bridge.Piece, p *bridge.Piece) error {
	select {
	case pieces <- p:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// heard records that the source has responded.
func (r *reader) heard() {
	r.run.count(func(p *bridge.Progress) { p.LastPoll = time.Now() })
}

// idle calls Config.Idle.
func (r *reader) idle() {
	if c := &r.bridge.config; c.Idle != nil && c.Follow && r.at.Tail == 0 {
		c.Idle()
	}
}
