package jobs_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/feedctl/feedctl/internal/jobdb"
	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/jobs"
)

// holding is a kind whose runs report that they have begun, and last until they are released.
type holding struct {
	fakeKind
	began   chan string
	release map[string]chan struct{} // by name
}

func (h holding) Run(ctx context.Context, s *jobs.Session) error {
	h.began <- s.Document.Name
	select {
	case <-h.release[s.Document.Name]:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// noticing is a log handler that sends messages to a channel.
type noticing struct {
	slog.Handler
	messages chan<- string
}

func (n noticing) Handle(_ context.Context, r slog.Record) error {
	select {
	case n.messages <- r.Message:
	default:
	}
	return nil
}

func (n noticing) Enabled(context.Context, slog.Level) bool { return true }
func (n noticing) WithAttrs([]slog.Attr) slog.Handler       { return n }
func (n noticing) WithGroup(string) slog.Handler            { return n }

// TestDatabaseAway stops PostgreSQL for longer than the leases of two nodes. Their runs continue;
// the ends of some runs are recorded when the database is back, and no job runs twice.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	server := pgtest.StartOwn(t)
	db, err := jobdb.Open(t.Context(), server.URL("away"), jobdb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const many = 6
	kind := holding{began: make(chan string, 10*many), release: map[string]chan struct{}{}}
	settings := jobs.Defaults()
	settings.Lease = 20 * time.Second // several heartbeats: otherwise, jobs would be adopted after one late reconnection
	store := jobs.NewScheduler(db, jobs.Kinds{"hold": kind}, settings)
	for n := range many {
		d := jobs.Document{Namespace: "n", Name: fmt.Sprint(n), Kind: "hold", Source: fmt.Sprint("s", n)}
		kind.release[d.Name] = make(chan struct{})
		apply(t, store, d)
	}
	ctx, stop := context.WithCancel(t.Context())
	var nodes sync.WaitGroup
	messages := []chan string{make(chan string, 1000), make(chan string, 1000)}
	for n, messages := range messages {
		nodes.Go(func() {
			c := jobs.WorkerConfig{Name: fmt.Sprint("node-", n), Slots: many / 2, Logger: slog.New(noticing{messages: messages})}
			if err := store.Work(ctx, c); err != nil {
				t.Error(err)
			}
		})
	}
	for range many {
		<-kind.began
	}
	await := func(part string) {
		t.Helper()
		for _, messages := range messages {
			for !strings.Contains(<-messages, part) {
			}
		}
	}
	server.Stop()
	stopped := time.Now()
	await("cannot use its database")
	for n := range many / 2 {
		close(kind.release[fmt.Sprint(n)])
	}
	<-time.After(time.Until(stopped.Add(settings.Lease + time.Second)))
	server.Start()
	await("can use its database again")
	l := &lostTest{t, db}
	l.await(many/2, "SELECT count(*) FROM @job WHERE state = 'completed'")
	l.await(2, "SELECT count(*) FROM @node WHERE expires > @now AND NOT lost")
	if n := l.number("SELECT count(*) FROM @job WHERE state = 'running'"); n != many/2 {
		t.Errorf("%d of %d jobs are still running", n, many/2)
	}
	for n := many / 2; n < many; n++ {
		close(kind.release[fmt.Sprint(n)])
	}
	l.await(many, "SELECT count(*) FROM @job WHERE state = 'completed'")
	if n := l.number("SELECT count(*) FROM @event WHERE type NOT IN ('added', 'started', 'completed')"); n != 0 || len(kind.began) != 0 {
		t.Errorf("%d jobs were disturbed, and %d ran again", n, len(kind.began))
	}
	stop()
	nodes.Wait()
	if n := l.number("SELECT count(*) FROM @node"); n != 0 {
		t.Errorf("%d nodes have not left", n)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}
