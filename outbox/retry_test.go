package outbox_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/feedctl/feedctl/internal/schema"
	"github.com/feedctl/feedctl/outbox"
	"github.com/feedctl/feedctl/storage/memory"
)

// TestRetryFor: a runner continues after the database has been down repeatedly, each time for
// less than Config.RetryFor, and ends when the database is down for longer.
func TestRetryFor(t *testing.T) {
	t.Parallel()
	const retryFor = 10 * time.Second
	errDown := errors.New("database is down")
	url := newDatabase(t)
	synctest.Test(t, func(t *testing.T) {
		w := &world{TB: t, url: url, feed: testFeed}
		w.pool = w.connect(nil)
		config := w.pool.Config()
		var down atomic.Bool
		config.PrepareConn = func(context.Context, *pgx.Conn) (bool, error) {
			if down.Load() {
				return true, errDown
			}
			return true, nil
		}
		pool, err := pgxpool.NewWithConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		runner, err := outbox.Use(pool, schema.Default).NewRunner(outbox.Config{Feed: testFeed, Store: memory.New(), RetryFor: retryFor})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- runner.Run(t.Context()) }()
		for n := range int64(3) {
			down.Store(true)
			time.Sleep(retryFor * 9 / 10)
			down.Store(false)
			w.publish("a")
			for runner.Stats().Rows <= n && len(done) == 0 {
				time.Sleep(time.Millisecond)
			}
		}
		select {
		case err := <-done:
			t.Fatalf("runner ended: %v", err)
		default:
		}
		down.Store(true)
		began := time.Now()
		if err := <-done; !errors.Is(err, errDown) {
			t.Errorf("runner ended: %v", err)
		}
		if took := time.Since(began); took <= retryFor {
			t.Errorf("the runner ended after %v", took)
		}
	})
}
