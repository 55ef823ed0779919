package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/outbox"
	"github.com/feedctl/feedctl/storage/fault"
	"github.com/feedctl/feedctl/storage/memory"
)

type recorder struct{ statements chan string }

func (r recorder) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	select {
	case r.statements <- data.SQL:
	default: // nothing is recorded
	}
	return ctx
}

func (recorder) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TestIdle: feeds without rows have no lease, and the outbox is polled with one statement at a time,
// outside transactions, for all of them. New rows are still moved.
func TestIdle(t *testing.T) {
	t.Parallel()
	w, store := newWorld(t), memory.New()
	trace := recorder{make(chan string)}
	db := outbox.Use(w.connect(trace), "feedctl")
	db.SetIdleAfter(0)
	ctx, stop := context.WithCancel(t.Context())
	var runners sync.WaitGroup
	defer runners.Wait()
	defer stop()
	names := []string{testFeed}
	for i := range 20 {
		names = append(names, fmt.Sprintf("other-%d", i))
	}
	for _, name := range names {
		r, err := db.NewRunner(outbox.Config{Feed: name, Store: store, Lease: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		runners.Go(func() {
			if err := r.Run(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("runner of feed %s: %v", name, err)
			}
		})
	}
	for range 2 {
		// Wait until all runners have started and have nothing to do.
		for get[bool](w, "SELECT count(*) < $1 OR EXISTS (SELECT FROM feedctl.outbox_lease) FROM feedctl.outbox_feed", len(names)) {
			if t.Context().Err() != nil {
				t.Fatal(t.Context().Err())
			}
		}
		for n := 0; n < 3; {
			sql := <-trace.statements
			if !strings.Contains(sql, "WITH ORDINALITY") {
				n = 0 // some runners had only just started
				continue
			}
			n++
		}
		w.publish("1")
		w.await()
	}
	if got := len(entities(t, store)); got != 2 {
		t.Errorf("%d entities, want 2", got)
	}
}

// TestIdleCalls: when Idle is called, all rows that had been committed at the previous call have been
// moved, whether or not the runner holds the lease.
func TestIdleCalls(t *testing.T) {
	t.Parallel()
	for _, idleAfter := range []time.Duration{0, time.Hour} {
		w := newWorld(t)
		db := outbox.Use(w.connect(nil), "feedctl")
		db.SetIdleAfter(idleAfter)
		var r *running
		var committed atomic.Int64
		before := int64(0)
		calls := make(chan int64) // for each call, how many rows had been committed
		ready, ended := make(chan struct{}), make(chan struct{})
		r = w.run(db, outbox.Config{Store: memory.New(), Idle: func() {
			<-ready
			if moved := r.Stats().Rows; moved < before {
				t.Errorf("%d rows have been moved, but %d had been committed at the previous call", moved, before)
			}
			before = committed.Load()
			select {
			case calls <- before:
			case <-ended:
			}
		}})
		close(ready)
		for n := range int64(20) {
			w.publish(fmt.Sprint(n))
			committed.Store(n + 1)
			if n%5 == 0 {
				for range 3 {
					<-calls
				}
			}
		}
		for <-calls < 20 {
		}
		<-calls
		close(ended)
		r.mustStop(t)
		if got := r.Stats().Rows; got != 20 {
			t.Errorf("%d rows moved, want 20", got)
		}
	}
}

// TestIdleWhileMoving: a runner that waits for the lease does not call Idle while the holder of the
// lease has read rows but not yet moved them.
func TestIdleWhileMoving(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var writes atomic.Int64
	blocked := make(chan struct{})
	holder := w.run(w.db, outbox.Config{Store: fault.Wrap(memory.New(), func(op fault.Op) fault.Outcome {
		if op.Verb.Writes() {
			writes.Add(1)
			<-blocked
		}
		return fault.Pass
	})})
	w.publish("1")
	for writes.Load() == 0 {
		runtime.Gosched()
	}
	polls := recorder{make(chan string)}
	var idle atomic.Int64
	waiting := w.run(outbox.Use(w.connect(polls), "feedctl"), outbox.Config{Store: memory.New(), Lease: time.Second, Idle: func() { idle.Add(1) }})
	for n := 0; n < 4; {
		if sql := <-polls.statements; strings.Contains(sql, "WITH ORDINALITY") {
			n++
		}
	}
	if n := idle.Load(); n > 0 {
		t.Errorf("Idle was called %d times while a row was being moved", n)
	}
	close(blocked)
	w.await()
	for idle.Load() == 0 {
		runtime.Gosched()
	}
	waiting.mustStop(t)
	holder.mustStop(t)
}
