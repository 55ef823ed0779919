package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/feedctl/feedctl/internal/jobdb"
	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/jobs"
)

// counters is a kind of job that copies a number from source to target.
type counters struct {
	mu      sync.Mutex
	changed chan struct{} // closed at the next change of any number
	sources map[string]int
	targets map[string]int
	running map[string]int
}

func newCounters() *counters {
	return &counters{changed: make(chan struct{}), sources: map[string]int{}, targets: map[string]int{}, running: map[string]int{}}
}

func (*counters) Check(*jobs.Document) []jobs.Problem { return nil }

func (*counters) Identify(d *jobs.Document) jobs.Identity {
	return jobs.Identity{Work: d.Source + " " + d.Target, Target: d.Target}
}

func (c *counters) Run(ctx context.Context, s *jobs.Session) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running[s.Document.Target]++
	defer func() { c.running[s.Document.Target]-- }()
	if n := c.running[s.Document.Target]; n > 1 {
		return fmt.Errorf("%d runs at the same time", n)
	}
	for {
		if strings.HasPrefix(s.Document.Source, "bad") {
			return fmt.Errorf("%s: %w", s.Document.Source, errBad)
		}
		if c.targets[s.Document.Target] != c.sources[s.Document.Source] {
			s.Busy()
			c.targets[s.Document.Target] = c.sources[s.Document.Source]
			c.notify()
		}
		if !s.Linger {
			return nil
		}
		s.CaughtUp()
		changed := c.changed
		c.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		c.mu.Lock()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

var errBad = errors.New("source is bad")

// notify wakes all waiters. The caller must hold c.mu.
func (c *counters) notify() {
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *counters) set(source string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sources[source] = n
	c.notify()
}

// await waits until holds returns true. It calls holds with c.mu held.
func (c *counters) await(t *testing.T, holds func() bool) {
	t.Helper()
	for {
		c.mu.Lock()
		changed, done := c.changed, holds()
		c.mu.Unlock()
		if done {
			return
		}
		<-changed
	}
}

// TestWork runs more jobs than there are slots, on two nodes if the database allows several, and wakes them.
func TestWork(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{
		"sqlite":   "sqlite:" + filepath.Join(t.TempDir(), "jobs.db"),
		"postgres": pgtest.Start(t).URL("work"),
		"bouncer":  pgtest.PgBouncer(t, pgtest.Start(t), "work_bouncer"),
	} {
		t.Run(name, func(t *testing.T) {
			db, err := jobdb.Open(t.Context(), url, jobdb.Options{})
			if err != nil {
				t.Fatal(err)
			}
			c := newCounters()
			store := jobs.NewScheduler(db, jobs.Kinds{"count": c}, jobs.Defaults())
			const many = 30
			var documents []jobs.Document
			var ids []string
			for n := range many {
				d := jobs.Document{Namespace: "test", Name: fmt.Sprint(n), Kind: "count", Source: fmt.Sprint("s", n), Target: fmt.Sprint("t", n), Follow: true}
				documents = append(documents, d)
				ids = append(ids, d.ID())
				c.set(d.Source, 1)
			}
			if _, err := store.Apply(t.Context(), documents, jobs.ApplyOptions{}); err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			var nodes sync.WaitGroup
			for n := range map[string]int{"sqlite": 1, "postgres": 2, "bouncer": 2}[name] {
				nodes.Go(func() {
					if err := store.Work(ctx, jobs.WorkerConfig{Name: fmt.Sprintf("node-%d", n), Slots: 5}); err != nil {
						t.Errorf("node %d: %v", n, err)
					}
				})
			}
			for round := 1; round <= 2; round++ {
				for n := range many {
					c.set(fmt.Sprint("s", n), round)
				}
				if err := store.Wake(t.Context(), ids...); err != nil {
					t.Fatal(err)
				}
				c.await(t, func() bool {
					for n := range many {
						if c.targets[fmt.Sprint("t", n)] != round {
							return false
						}
					}
					return true
				})
			}
			l := &lostTest{t, db}
			l.await(1, "SELECT count(*) FROM @river_leader") // the leader deletes old rows
			stop()
			nodes.Wait()
			if n := l.number("SELECT count(*) FROM @river_job WHERE state = 'completed'"); n < many {
				t.Errorf("the queue has completed %d runs, want at least one of each of %d jobs", n, many)
			}
			for _, id := range ids {
				j, err := store.Get(t.Context(), id)
				if err != nil {
					t.Fatal(err)
				}
				if j.State == jobs.Running || j.Errors > 0 {
					t.Errorf("%s is %s after the end, %d errors: %s", id, j.State, j.Errors, j.Reason)
				}
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestLateOrders: a run that begins while a node requests orders is not ended because the orders do not name
// it.
func TestLateOrders(t *testing.T) {
	asked := time.Now()
	for after, want := range map[time.Duration]bool{-time.Second: true, 0: false, time.Second: false} {
		if got := jobs.EndedByOrders(asked.Add(after), asked); got != want {
			t.Errorf("a run that began %v after orders were asked for was ended: %v, want %v", after, got, want)
		}
	}
}
