package producer

import (
	"sync"
	"time"
)

// An amount is a number of entities and the size that they have on pages.
type amount struct {
	bytes    int64
	entities int
}

func (a amount) plus(b amount) amount  { return amount{a.bytes + b.bytes, a.entities + b.entities} }
func (a amount) minus(b amount) amount { return amount{a.bytes - b.bytes, a.entities - b.entities} }

// reaches reports whether a is at least b in bytes or in entities, so that it fills a page with room
// for b.
func (a amount) reaches(b amount) bool { return a.bytes >= b.bytes || a.entities >= b.entities }

// queue holds the requests that wait for a commit.
type queue struct {
	mu      sync.Mutex
	waiting []*request
	load    amount // the sum of all waiting requests
	closed  bool
	wake    chan struct{} // wakes the goroutine that commits
	target  int           // number of requests for which await waits; 0: await is not waiting
	reached chan struct{}
}

func newQueue() queue {
	return queue{wake: make(chan struct{}, 1), reached: make(chan struct{}, 1)}
}

// add adds a request. It returns false if the queue is closed.
func (q *queue) add(r *request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.waiting = append(q.waiting, r)
	q.load = q.load.plus(r.load())
	signal(q.wake)
	if q.target > 0 && len(q.waiting) >= q.target {
		q.target = 0
		signal(q.reached)
	}
	return true
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// await returns when at least the given number of requests are waiting, or after d.
func (q *queue) await(requests int, d time.Duration) {
	q.mu.Lock()
	if len(q.waiting) >= requests || q.closed {
		q.mu.Unlock()
		return
	}
	q.target = requests
	q.mu.Unlock()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-q.reached:
	case <-timer.C:
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.target == 0 { // the target was reached just now
			<-q.reached
		}
		q.target = 0
	}
}

func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}

// withdraw removes r from the queue, and makes r and the requests that must come after it fail with
// err. It returns false if r was no longer in the queue.
func (q *queue) withdraw(r *request, err error) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, w := range q.waiting {
		if w == r {
			q.waiting = append(q.waiting[:i], q.waiting[i+1:]...)
			q.load = q.load.minus(r.load())
			r.err = err
			return true
		}
	}
	return false
}

// take moves requests into b until their size is at least most bytes, or until accept returns false
// for one. It moves none if the waiting requests do not add up to lacking. It reports whether it
// moved any.
func (q *queue) take(b *batch, lacking amount, most int64, accept func(*request) bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.load.reaches(lacking) {
		return false
	}
	if b.items == nil {
		b.items = make([]item, 0, q.within(most))
	}
	n := 0
	for moved := int64(0); n < len(q.waiting) && moved < most && accept(q.waiting[n]); n++ {
		load := q.waiting[n].load()
		b.add(q.waiting[n])
		q.load = q.load.minus(load)
		moved += load.bytes
	}
	rest := copy(q.waiting, q.waiting[n:])
	clear(q.waiting[rest:])
	q.waiting = q.waiting[:rest]
	return n > 0
}

// within estimates how many of the waiting entities have a total size of the given number of bytes.
func (q *queue) within(bytes int64) int {
	if q.load.bytes <= bytes {
		return q.load.entities
	}
	return int(int64(q.load.entities)*bytes/q.load.bytes) + 1
}

// rearm wakes the goroutine that commits if requests are waiting. It returns false if the queue is
// closed and empty.
func (q *queue) rearm() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) > 0 {
		signal(q.wake)
	}
	return !q.closed || len(q.waiting) > 0
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	signal(q.wake)
	if q.target > 0 {
		q.target = 0
		signal(q.reached)
	}
}
