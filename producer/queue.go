package producer

import (
	"sync"
	"time"
)

// queue holds the requests that wait for a commit.
type queue struct {
	mu      sync.Mutex
	waiting []*request
	closed  bool
	wake    chan struct{} // tells the goroutine that commits to look
	target  int           // so many are awaited; 0: nobody waits
	reached chan struct{}
}

func newQueue() queue {
	return queue{wake: make(chan struct{}, 1), reached: make(chan struct{}, 1)}
}

// add reports false if the queue is closed.
func (q *queue) add(r *request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.waiting = append(q.waiting, r)
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

// await returns when so many requests wait, or after so long.
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
		if q.target == 0 { // reached after all
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

// withdraw takes r out, and reports false if it was not there any more.
func (q *queue) withdraw(r *request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, w := range q.waiting {
		if w == r {
			q.waiting = append(q.waiting[:i], q.waiting[i+1:]...)
			return true
		}
	}
	return false
}

// take moves requests into b until it is full, and reports whether there may be
// more to come.
func (q *queue) take(b *batch, bytes int64, entities int) (open bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for n < len(q.waiting) && b.accepts(q.waiting[n], bytes, entities) {
		b.add(q.waiting[n])
		n++
	}
	rest := copy(q.waiting, q.waiting[n:])
	clear(q.waiting[rest:])
	q.waiting = q.waiting[:rest]
	if rest > 0 {
		signal(q.wake)
	}
	return !q.closed || rest > 0
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
