package outbox_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/internal/schema"
	"github.com/feedctl/feedctl/outbox"
	"github.com/feedctl/feedctl/storage"
)

// A pauser calls a function before a runner locks the feed for its nth batch.
type pauser struct {
	n     int64
	count atomic.Int64
	call  func()
}

func (p *pauser) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if strings.Contains(q.SQL, "FROM outbox_feed WHERE feed = $1 FOR UPDATE") && p.count.Add(1) == p.n {
		p.call()
	}
	return ctx
}

func (p *pauser) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TestReadAheadIsOvertaken: the rows that a runner read ahead were moved by another runner so long ago
// that the producer no longer recognizes their Content-IDs.
func TestReadAheadIsOvertaken(t *testing.T) {
	t.Parallel()
	places(t, func(t *testing.T, w *world, c outbox.Config, store storage.Store) {
		c.Producer.MaxPageEntities = 1
		const rows = 30
		w.exec(`INSERT INTO feedctl.outbox (feed, body) SELECT 'things', convert_to(n::text, 'UTF8') FROM generate_series(1, $1) n`, rows)
		p := &pauser{n: 4, call: func() {
			w.exec("DELETE FROM feedctl.outbox_lease")
			w.drain(c)
		}}
		slow := c
		slow.MaxRows = 2
		if _, err := drain(t.Context(), outbox.Use(w.connect(p), schema.Default), slow); err != nil {
			t.Error(err)
		}
		var want []string
		for n := range rows {
			want = append(want, fmt.Sprint(n+1))
		}
		if p.count.Load() < p.n {
			t.Error("the runner was not overtaken")
		}
		if diff := cmp.Diff(want, bodies(t, store)); diff != "" {
			t.Error(diff)
		}
	})
}

// TestReadAheadLargeBodies: if rows are read ahead, their large bodies are read when the rows are
// published.
func TestReadAheadLargeBodies(t *testing.T) {
	t.Parallel()
	places(t, func(t *testing.T, w *world, c outbox.Config, store storage.Store) {
		c.MaxRows = 1
		var want []string
		for _, x := range []string{"a", "b", "c"} {
			want = append(want, strings.Repeat(x, 3<<20))
			w.exec("SELECT feedctl.publish('things', $1, 'PUT', repeat($1, $2))", x, 3<<20)
		}
		w.drain(c)
		if !slices.Equal(want, bodies(t, store)) {
			t.Error("wrong bodies were published")
		}
	})
}
