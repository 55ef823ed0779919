package jobs

import (
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/feedctl/feedctl/internal/origins"
)

// A Session is the interface of a run to its [Kind].
type Session struct {
	Document Document
	// Linger: at the end, the run waits for more until it is stopped, and calls CaughtUp
	// whenever it has found nothing more. Otherwise it ends there.
	Linger bool
	Logger *slog.Logger
	// Transport sends requests by HTTP. All runs of a node share it: it keeps connections, and
	// slows down for servers that ask for that. It ends the run if a server fails for too long.
	Transport http.RoundTripper

	client   *origins.Client // as Transport
	log      *runLog
	mu       sync.Mutex
	wanted   int64     // as the database had it last
	before   int64     // the same when the last check for more began, at the latest
	seen     int64     // what checks have answered; 0: nothing, or more has been found since
	past     Stats     // of the runs before
	stats    *Stats    // of this run; nil before the first report
	written  bool      // the database has stats
	progress time.Time // when stats changed last, or a check found nothing more
}

// CaughtUp notes that there is nothing more to do. What there is to do was checked after
// CaughtUp was called before, if it was.
func (s *Session) CaughtUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == 0 {
		s.written = false // nothing is pending any more
	}
	s.seen, s.before = s.before, s.wanted
	s.progress = time.Now()
}

// linger begins the part of the run in which it waits for more. What the kind reports in it
// comes in addition to what it has reported.
func (s *Session) linger() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Linger = true
	if s.stats != nil {
		s.past = s.past.plus(*s.stats)
		s.stats = &Stats{Pending: s.stats.Pending, Lag: s.stats.Lag}
	}
}

// Busy notes that there is something to do.
func (s *Session) Busy() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = 0
}

// Report notes how far the run has come. A run that reports the same for 5 minutes and does
// not call CaughtUp is ended: it is taken to be stuck. So is a run of a job that follows if it
// reports nothing; other runs may be silent until their first report.
func (s *Session) Report(stats Stats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stats != nil && *s.stats == stats {
		return
	}
	s.stats, s.written = &stats, false
	s.progress = time.Now()
}

// total returns the statistics of the job, including this run. It reports false if the database
// already has them.
func (s *Session) total() (Stats, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stats == nil || s.written {
		return Stats{}, false
	}
	return s.sum(), true
}

// sum returns the statistics of the job. s.mu is held.
func (s *Session) sum() Stats {
	sum := s.past.plus(*s.stats)
	if s.seen > 0 { // caught up
		sum.Pending, sum.Lag = max(sum.Pending, 0), max(sum.Lag, 0)
	}
	return sum
}

// wrote notes that the database has a total.
func (s *Session) wrote(total Stats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written = s.sum() == total
}

// stuck returns how long there has been no progress.
func (s *Session) stuck() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stats == nil && !s.Document.Follow {
		return 0
	}
	return time.Since(s.progress)
}

// update takes in how often there was a reason to run.
func (s *Session) update(wanted int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted = wanted
}

// answered returns how many wake-ups the run has handled; 0 if it has more to do.
func (s *Session) answered() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}
