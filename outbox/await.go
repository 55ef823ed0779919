package outbox

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// idleAfter is how long after its last row a feed counts as idle: then its runner
	// gives the lease back, and the outbox is polled at idlePoll.
	idleAfter = 10 * time.Second
	idlePoll  = 250 * time.Millisecond
)

// A poller lets the runners of a database wait for rows: with one statement for all of
// them, which writes nothing.
type poller struct {
	db        *DB
	idleAfter time.Duration

	mu      sync.Mutex
	waiting map[*waiter]struct{}
	running bool
	hurry   chan struct{} // holds a value if the next look must not wait for long
}

// A waiter is a runner that waits for rows of its feed.
type waiter struct {
	feed   string
	from   int64         // rows with smaller ids do not count
	last   int64         // the greatest id that was drawn: if less is, ids went back
	poll   time.Duration // Config.Poll
	active time.Time     // when the feed had rows last
	ready  chan struct{} // closed when there may be rows
}

func newPoller(d *DB) *poller {
	return &poller{db: d, idleAfter: idleAfter, waiting: make(map[*waiter]struct{}), hurry: make(chan struct{}, 1)}
}

// await waits until there may be rows, or returns the cause of the context's end. An
// error of the database ends the waiting too: who looks for rows meets it again.
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
	case p.hurry <- struct{}{}:
	default: // it does already
	}
}

// all returns those that wait. If none does, the polling has ended.
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

// wake ends the waiting of some.
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

// run polls while anyone waits: often while feeds have had rows lately, then rarely.
func (p *poller) run() {
	failed, pause := 0, time.Duration(0) // times in a row, and what is waited longer for that
	var server, at time.Time             // of the next look; zero if that is not set
	looks := 0                           // since somebody came
	for {
		list := p.all()
		if len(list) == 0 {
			return
		}
		now := time.Now()
		if soon := now.Add(p.pause(list, looks, now) + pause); at.IsZero() || soon.Before(at) {
			at = soon
		}
		if p.sleep(at.Sub(now)) {
			looks = 0
			continue // with those that have come
		}
		ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
		found, err := p.look(ctx, list, &server)
		cancel()
		if err != nil {
			failed++
			pause = pauses().After(failed)
		} else {
			failed, pause = 0, 0
		}
		p.wake(found)
		at = time.Time{}
		looks++
	}
}

// lookTimeout limits how long a look may take.
const lookTimeout = 10 * time.Second

// pause returns how long to wait ahead of the next look.
func (p *poller) pause(list []*waiter, looks int, now time.Time) time.Duration {
	shortest := idlePoll
	for _, w := range list {
		if now.Sub(w.active) < p.idleAfter {
			shortest = min(shortest, w.poll<<min(looks, 4), 10*w.poll)
		}
	}
	return shortest
}

// sleep reports whether it was cut short, since somebody came.
func (p *poller) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return false
	case <-p.hurry:
		return true
	}
}

// look returns those whose feeds have rows, or all of them if that is not known: after an
// error, and if ids may be drawn again, as a mark finds out. It is one statement outside of
// a transaction. Rows that are hidden by row security would be taken for none, so that
// they count.
func (p *poller) look(ctx context.Context, list []*waiter, server *time.Time) ([]*waiter, error) {
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
