package outbox_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/internal/schema"
	"github.com/feedctl/feedctl/outbox"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

// A runner that hangs in the middle of a transaction, or whose host has crashed, does not
// block others.
func TestStalledInTransaction(t *testing.T) {
	t.Parallel()
	places(t, func(t *testing.T, w *world, c outbox.Config, store storage.Store) {
		t.Parallel()
		w.publish("1", "2")
		stalled, resume := make(chan struct{}), make(chan struct{})
		s := &staller{at: "DELETE FROM outbox WHERE", call: func() { close(stalled); <-resume }}
		if c.Local == nil {
			s.at = "UPDATE outbox_feed SET"
		}
		c.Feed = testFeed
		done := make(chan error)
		go func() {
			_, err := drain(t.Context(), outbox.Use(w.connect(s), schema.Default), c)
			done <- err
		}()
		<-stalled
		w.exec("DELETE FROM feedctl.outbox_lease")
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // ends the hanging transaction
		context.AfterFunc(ctx, func() { close(resume) })
		_, err := drain(ctx, w.db, c)
		if err != nil || ctx.Err() != nil {
			t.Errorf("no runner has taken over: %v", err)
		}
		cancel()
		if err := <-done; err == nil {
			t.Error("the stalled runner continued")
		}
		w.drain(c)
		if diff := cmp.Diff([]string{"1", "2"}, bodies(t, store)); diff != "" {
			t.Error(diff)
		}
	})
}

// A staller calls a function once, before a statement that contains at.
type staller struct {
	at   string
	once sync.Once
	call func()
}

func (p *staller) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if strings.Contains(q.SQL, p.at) {
		p.once.Do(p.call)
	}
	return ctx
}

func (p *staller) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// A lease written with a wrong clock does not block others.
func TestFutureLease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.publish("1")
	w.exec("INSERT INTO feedctl.outbox_lease VALUES ('things', 'somebody', clock_timestamp() + interval '1 day')")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // ends the test if the lease blocks the runner
	defer cancel()
	if _, err := drain(ctx, w.db, outbox.Config{Store: memory.New()}); err != nil {
		t.Error(err)
	}
}

// If ids are drawn a second time, as after a failover, the new rows are not confused with earlier
// ones.
func TestIDsGoBack(t *testing.T) {
	t.Parallel()
	places(t, func(t *testing.T, w *world, c outbox.Config, store storage.Store) {
		r := w.run(w.db, c)
		w.publish("1", "2", "3")
		w.await()
		var m outbox.Watermark
		if settled, err := m.Look(t.Context(), w.db); err != nil || settled != 3 {
			t.Fatal(settled, err)
		}
		// TRUNCATE with RESTART IDENTITY could deadlock with the runner, because it takes its
		// locks in the opposite order.
		w.exec("ALTER SEQUENCE feedctl.outbox_id_seq RESTART; TRUNCATE feedctl.outbox")
		if _, err := m.Look(t.Context(), w.db); err == nil {
			t.Error("a mark is still valid after ids were reset")
		}
		w.publish("4")
		w.await()
		r.mustStop(t)
		if diff := cmp.Diff([]string{"1", "2", "3", "4"}, bodies(t, store)); diff != "" {
			t.Error(diff)
		}
	})
}

// A runner even notices if ids go back only to the id that was last drawn when the watermark was
// updated, because rows with greater ids have been taken.
func TestIDsGoBackToTheMark(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.publish("1")
	var m outbox.Watermark
	if settled, err := m.Look(t.Context(), w.db); err != nil || settled != 1 {
		t.Fatal(settled, err)
	}
	w.publish("2", "3")
	m.Pass(1, 2, 3)
	w.exec("TRUNCATE feedctl.outbox RESTART IDENTITY")
	w.publish("4") // below the mark
	if _, err := m.Look(t.Context(), w.db); err == nil {
		t.Error("a mark is still valid after ids were reset")
	}
}
