package jobs

import (
	"log/slog"
	"sync"
)

// A Session is what a [Kind] has of a run.
type Session struct {
	Document Document
	// Linger: at the end, the run waits for more until it is stopped, and calls CaughtUp
	// whenever it has found nothing more. Otherwise it ends there.
	Linger bool
	Logger *slog.Logger

	mu     sync.Mutex
	wanted int64 // as the database had it last
	before int64 // the same when the last check for more began, at the latest
	seen   int64 // what checks have answered; 0: nothing, or more has been found since
}

// CaughtUp notes that there is nothing more to do. What there is to do was checked after
// CaughtUp was called before, if it was.
func (s *Session) CaughtUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen, s.before = s.before, s.wanted
}

// Busy notes that there is something to do.
func (s *Session) Busy() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = 0
}

// update takes in how often there was a reason to run.
func (s *Session) update(wanted int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted = wanted
}

// answered returns how many reasons to run the run has answered; 0 if it has more to do.
func (s *Session) answered() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}
