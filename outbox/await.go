package outbox

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// A feed becomes idle when it has had no rows for idleAfter. Its runner then releases the lease,
	// and the outbox is polled only every idlePoll.
	idleAfter = 10 * time.Second
	idlePoll  = 250 * time.Millisecond
)

// A poller waits for rows on behalf of all runners of a DB, with one read-only statement for all of
// them.
type poller struct {
	db        *DB
	idleAfter time.Duration

	mu      sync.Mutex
	waiting map[*waiter]struct{}
	running bool
	wakeup  chan struct{} // holds a value if a waiter has joined
}

// A waiter is a runner that waits for rows of its feed.
type waiter struct {
	feed   string
	from   int64         // rows with smaller ids are ignored
	last   int64         // the greatest id known to have been drawn; if the sequence is below that, ids went back
	poll   time.Duration // Config.Poll
	active time.Time     // when the feed last had rows
	idle   func()        // called when there are no rows
	ready  chan struct{} // closed when there may be rows
}

func newPoller(d *DB) *poller {
	return &poller{db: d, idleAfter: idleAfter, waiting: make(map[*waiter]struct{}), wakeup: make(chan struct{}, 1)}
}

// await waits until there may be rows, or returns the cause of the context's end. It also returns nil
// after a database error: the caller will get that error when it reads rows.
func (p *poller) await(ctx context.Context, w waiter) error {
	w.ready = make(chan struct{})
	p.join(&w)
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.waiting, &w)
		return context.Cause(ctx)
	}
}

func (p *poller) join(w *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting[w] = struct{}{}
	if !p.running {
		p.running = true
		go p.run()
		return
	}
	select {
	case p.wakeup <- struct{}{}:
	default: // wakeup already holds a value
	}
}

// all returns the waiters. If there are none, it records that polling ends.
func (p *poller) all() []*waiter {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]*waiter, 0, len(p.waiting))
	for w := range p.waiting {
		list = append(list, w)
	}
	p.running = len(list) > 0
	return list
}

func (p *poller) wake(list []*waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range list {
		if _, ok := p.waiting[w]; ok {
			delete(p.waiting, w)
			close(w.ready)
		}
	}
}

// idle calls the idle function of each waiter in list that is still waiting.
func (p *poller) idle(list []*waiter) {
	var idle []func()
	p.mu.Lock()
	for _, w := range list {
		if _, ok := p.waiting[w]; ok {
			idle = append(idle, w.idle)
		}
	}
	p.mu.Unlock()
	for _, f := range idle {
		f()
	}
}

// run polls as long as there are waiters: often if their feeds have had rows recently, otherwise
// rarely.
func (p *poller) run() {
	failed, pause := 0, time.Duration(0) // failures in a row, and how long they delay the next poll
	var server, at time.Time             // when the server started; when the next poll is due, or zero
	polls := 0                           // the number of polls since a waiter last joined
	for {
		list := p.all()
		if len(list) == 0 {
			return
		}
		now := time.Now()
		if soon := now.Add(p.pause(list, polls, now) + pause); at.IsZero() || soon.Before(at) {
			at = soon
		}
		if p.sleep(at.Sub(now)) {
			polls = 0
			continue // with the new waiters
		}
		ctx, cancel := context.WithTimeout(context.Background(), pollTimeout)
		found, err := p.poll(ctx, list, &server)
		cancel()
		if err != nil {
			failed++
			pause = pauses().After(failed)
		} else {
			failed, pause = 0, 0
		}
		p.wake(found)
		if err == nil {
			p.idle(list)
		}
		at = time.Time{}
		polls++
	}
}

const pollTimeout = 10 * time.Second

// pause returns how long to wait before the next poll.
func (p *poller) pause(list []*waiter, polls int, now time.Time) time.Duration {
	shortest := idlePoll
	for _, w := range list {
		if now.Sub(w.active) < p.idleAfter {
			shortest = min(shortest, w.poll<<min(polls, 4), 10*w.poll)
		}
	}
	return shortest
}

// sleep waits for d, or until a waiter joins: then it returns true.
func (p *poller) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return false
	case <-p.wakeup:
		return true
	}
}

// poll returns the waiters whose feeds have rows, or all waiters if this is not known: after an error,
// if ids may be drawn a second time (see errWentBack), or if row security may hide rows. It executes
// one statement, outside a transaction.
func (p *poller) poll(ctx context.Context, list []*waiter, server *time.Time) ([]*waiter, error) {
	feeds, from, last := make([]string, len(list)), make([]int64, len(list)), int64(0)
	for i, w := range list {
		feeds[i], from[i] = w.feed, w.from
		last = max(last, w.last)
	}
	var drawn int64
	var started time.Time
	var hidden bool
	var found []int64
	err := p.db.pool.QueryRow(ctx, fmt.Sprintf(`
		SELECT s.last_value, pg_postmaster_start_time(), row_security_active('%[1]s'), ARRAY(
			SELECT w.n FROM unnest($1::text[], $2::bigint[]) WITH ORDINALITY AS w (feed, id, n)
			WHERE EXISTS (SELECT FROM %[1]s AS o WHERE o.feed = w.feed AND o.id >= w.id))
		FROM %[2]s AS s`, p.db.outbox(), pgx.Identifier{p.db.schema, "outbox_id_seq"}.Sanitize()), feeds, from).
		Scan(&drawn, &started, &hidden, &found)
	again := !server.IsZero() && !server.Equal(started)
	if err != nil || hidden || again || drawn < last {
		*server = started
		return list, err
	}
	*server = started
	var some []*waiter
	for _, n := range found {
		some = append(some, list[n-1])
	}
	return some, nil
}
