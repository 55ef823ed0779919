package roundtrip

import (
	"io"
	"net/http"
	"sync"
	"time"
)

// LateAfter is the delay after which a response counts as late.
const LateAfter = 10 * time.Second

// A deadline cancels a request whose response does not begin in time. Each read of the
// request body extends it, because the response cannot begin before that.
type deadline struct {
	limit   time.Duration
	mu      sync.Mutex
	timer   *time.Timer
	late    *time.Timer
	stopped bool
}

func newDeadline(limit time.Duration, late, cancel func()) *deadline {
	if late == nil {
		late = func() {}
	}
	return &deadline{limit: limit, timer: time.AfterFunc(limit, cancel), late: time.AfterFunc(LateAfter, late)}
}

// watch makes the body of r extend the deadline.
func (d *deadline) watch(r *http.Request) {
	if r.Body == nil || r.Body == http.NoBody {
		return
	}
	r.Body = &upload{r.Body, d}
	if again := r.GetBody; again != nil {
		r.GetBody = func() (io.ReadCloser, error) {
			body, err := again()
			if err != nil {
				return nil, err
			}
			return &upload{body, d}, nil
		}
	}
}

// extend restarts the timers.
func (d *deadline) extend() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.stopped {
		d.timer.Reset(d.limit)
		d.late.Reset(LateAfter)
	}
}

// stop stops the timers for good, even if the transport continues to read the
// body. It returns false if the request has already been cancelled.
func (d *deadline) stop() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stopped = true
	d.late.Stop()
	return d.timer.Stop()
}

// An upload is a request body that extends a deadline.
type upload struct {
	io.ReadCloser
	deadline *deadline
}

func (u *upload) Read(b []byte) (int, error) {
	n, err := u.ReadCloser.Read(b)
	u.deadline.extend()
	return n, err
}
