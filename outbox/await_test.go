package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/feedctl/feedctl/outbox"
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

// TestIdle: feeds without rows have no lease, and together cost one statement at a time,
// outside transactions. Rows are still moved.
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
		// All runners have started, and have nothing to do.
		for get[bool](w, "SELECT count(*) < $1 OR EXISTS (SELECT FROM feedctl.outbox_lease) FROM feedctl.outbox_feed", len(names)) {
			if t.Context().Err() != nil {
				t.Fatal(t.Context().Err())
			}
		}
		for n := 0; n < 3; {
			sql := <-trace.statements
			if !strings.Contains(sql, "WITH ORDINALITY") {
				n = 0 // some have only just started
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
