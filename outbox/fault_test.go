package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/feedctl/feedctl/internal/schema"
	"github.com/feedctl/feedctl/outbox"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/fault"
	"github.com/feedctl/feedctl/storage/memory"
)

// A killer ends the connection that is about to be used for the nth statement.
type killer struct {
	w     *world
	n     int64
	count atomic.Int64
}

func (k *killer) TraceQueryStart(ctx context.Context, conn *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	if k.count.Add(1) == k.n {
		// The connection ends slightly later: the statement may or may not have been executed.
		var ended bool
		err := k.w.pool.QueryRow(context.WithoutCancel(ctx), "SELECT pg_terminate_backend($1)", conn.PgConn().PID()).Scan(&ended)
		if err != nil || !ended {
			k.w.Errorf("end connection: %v, %v", ended, err)
		}
	}
	return ctx
}

func (k *killer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// eachUntil calls try concurrently with the numbers 1, 2, 3 and so on, each call with its own feed,
// until a call returns false. It returns the number of calls that returned true before that one.
func (w *world) eachUntil(try func(w *world, n int) bool) int {
	w.Helper()
	const together = 8
	for first := 1; ; first += together {
		var wg sync.WaitGroup
		var again [together]bool
		for i := range again {
			wg.Go(func() {
				n := first + i
				again[i] = try(w.with(fmt.Sprint(w.feed, "-", n)), n)
			})
		}
		wg.Wait()
		if n := slices.Index(again[:], false); n >= 0 || w.Failed() {
			return first + n - 1
		}
	}
}

// TestConnectionEnds ends the connection before each statement of a runner. The next runner
// must finish its work.
func TestConnectionEnds(t *testing.T) {
	t.Parallel()
	places(t, func(t *testing.T, w *world, c outbox.Config, store storage.Store) {
		c.MaxRows, c.Producer.MaxPageEntities = 3, 2
		statements := w.eachUntil(func(w *world, n int) bool {
			c := c
			c.Feed = w.feed
			w.publish("0")
			w.drain(c)
			w.publish("1", "2", "3", "4")
			k := &killer{w: w, n: int64(n)}
			pool := w.connect(k)
			_, err := drain(t.Context(), outbox.Use(pool, schema.Default), c)
			pool.Close()
			w.exec("DELETE FROM feedctl.outbox_lease WHERE feed = $1", w.feed) // the lease of the disconnected runner
			w.drain(c)
			if diff := cmp.Diff([]string{"0", "1", "2", "3", "4"}, bodiesOf(t, store, w.feed)); diff != "" {
				t.Errorf("connection ended before statement %d, %v: %s", n, err, diff)
			}
			return err != nil || k.count.Load() >= int64(n)
		})
		if statements < 20 {
			t.Errorf("only %d statements", statements)
		}
	})
}

// TestStoreFaults makes each operation on the store in turn fail, with or without taking effect, and
// all operations after it. The next runner must finish the work.
func TestStoreFaults(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, outcome := range []fault.Outcome{fault.Lost, fault.Landed} {
		operations := w.with(fmt.Sprint("things-", outcome)).eachUntil(func(w *world, n int) bool {
			store := memory.New()
			c := outbox.Config{Feed: w.feed, Store: store, MaxRows: 5}
			c.Producer.MaxPageEntities = 2
			w.publish("0")
			w.drain(c)
			w.publish("1", "2", "3", "4", "5", "6")
			var reached atomic.Bool
			faulty := c
			faulty.Producer.RetryFor = time.Second // long enough that only errors end the runner
			faulty.Store = fault.Wrap(store, func(op fault.Op) fault.Outcome {
				switch {
				case op.N < n:
					return fault.Pass
				case op.N == n:
					reached.Store(true)
					return outcome
				}
				return fault.Lost
			})
			_, err := drain(t.Context(), w.db, faulty)
			if reached.Load() && err == nil {
				t.Errorf("no error after a fault at operation %d", n)
			}
			w.drain(c)
			if diff := cmp.Diff([]string{"0", "1", "2", "3", "4", "5", "6"}, bodiesOf(t, store, w.feed)); diff != "" {
				t.Errorf("operation %d %v, %v: %s", n, outcome, err, diff)
			}
			return reached.Load()
		})
		if operations < 10 {
			t.Errorf("only %d operations", operations)
		}
	}
}

// TestOthersPublishAfterCrash: a runner crashes after writing the first pages of a batch. Then others
// publish more pages than a producer searches for duplicates.
func TestOthersPublishAfterCrash(t *testing.T) {
	t.Parallel()
	w, store := newWorld(t), memory.New()
	want := []string{"1", "2", "3", "4", "5"}
	w.publish(want...)
	c := outbox.Config{Store: fault.Wrap(store, func(op fault.Op) fault.Outcome {
		if op.Key == "feeds/things/pages/000000000002" && op.Verb.Writes() {
			return fault.Lost
		}
		return fault.Pass
	})}
	c.Producer.MaxPageEntities = 2
	c.Producer.RetryFor = time.Second
	if _, err := drain(t.Context(), w.db, c); !errors.Is(err, fault.ErrInjected) {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"1", "2"}, bodies(t, store)); diff != "" {
		t.Fatal(diff)
	}
	got := []string{"1", "2"}
	for n := range 100 {
		body := fmt.Sprint("other ", n)
		publishDirectly(t, store, body)
		got = append(got, body)
	}
	c.Store, c.Producer.RetryFor = store, 0
	w.drain(c)
	if diff := cmp.Diff(append(got, "3", "4", "5"), bodies(t, store)); diff != "" {
		t.Error(diff)
	}
	w.publish("6")
	w.drain(c)
	if diff := cmp.Diff(append(got, "3", "4", "5", "6"), bodies(t, store)); diff != "" {
		t.Error(diff)
	}
}

// TestRandomConnectionLoss: runners make progress although their connections end at random.
func TestRandomConnectionLoss(t *testing.T) {
	t.Parallel()
	places(t, func(t *testing.T, w *world, c outbox.Config, store storage.Store) {
		c.MaxRows = 5
		config := w.pool.Config()
		config.ConnConfig.RuntimeParams["application_name"] = "runner"
		pool, err := pgxpool.NewWithConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		r := w.run(outbox.Use(pool, schema.Default), c)
		var want []string
		for n := range 60 {
			want = append(want, fmt.Sprint(n))
			if _, err := w.pool.Exec(t.Context(), "SELECT feedctl.publish('things', 'k', 'PUT', $1::text)", want[n]); err != nil {
				t.Fatal(err)
			}
			if rand.IntN(6) == 0 {
				_, err := w.pool.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
					WHERE datname = current_database() AND application_name = 'runner' ORDER BY random() LIMIT 1`)
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		w.await()
		r.mustStop(t)
		if diff := cmp.Diff(want, bodies(t, store)); diff != "" {
			t.Error(diff)
		}
	})
}

// TestLowerLimitAfterCrash: when a batch is resumed, all its recorded rows are published, even if a
// lower limit has been configured meanwhile.
func TestLowerLimitAfterCrash(t *testing.T) {
	t.Parallel()
	w, store := newWorld(t), memory.New()
	w.publish("1", "a long one", "3")
	c := outbox.Config{Store: fault.Wrap(store, func(op fault.Op) fault.Outcome {
		if op.Verb.Writes() {
			return fault.Lost
		}
		return fault.Pass
	})}
	c.Producer.RetryFor = time.Second
	if _, err := drain(t.Context(), w.db, c); err == nil {
		t.Fatal("no error")
	}
	w.drain(outbox.Config{Store: store, MaxEntity: 5})
	if diff := cmp.Diff([]string{"1", "a long one", "3"}, bodies(t, store)); diff != "" {
		t.Error(diff)
	}
}
