package jobs

import (
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/feedctl/feedctl/internal/origins"
)

// A Session is what a [Kind] uses to carry out a run.
type Session struct {
	Document Document
	// Linger makes the run, at the end, wait for more until it is stopped, and call CaughtUp whenever
	// it has found nothing more. Otherwise the run ends when it has found nothing more.
	Linger bool
	Logger *slog.Logger
	// Transport sends requests over HTTP. All runs of a node share it: it keeps connections, and slows down for
	// servers that ask for it. The transport ends the run if a server fails for too long.
	Transport http.RoundTripper

	client   *origins.Client // the same as Transport
	log      *runLog
	mu       sync.Mutex
	wanted   int64     // the latest value in the database
	before   int64     // the value of wanted at or before the beginning of the last check for more
	seen     int64     // the value of wanted that checks have handled; 0: none, or more has been found since
	found    time.Time // when more was first found after the run had caught up
	past     Stats     // of the previous runs
	stats    *Stats    // of this run; nil before the first report
	written  bool      // stats are in the database
	result   string
	progress time.Time // when there was last progress
}

// CaughtUp records that there is nothing more to do. The check for that must have begun after the
// previous call of CaughtUp, if there was one.
func (s *Session) CaughtUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == 0 {
		s.written = false // nothing is pending any more
	}
	s.seen, s.before = s.before, s.wanted
	s.progress = time.Now()
}

// linger begins the part of the run in which it waits for more. The statistics that the kind reports in that part are
// added to those that it has reported before.
func (s *Session) linger() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Linger = true
	if s.stats != nil {
		s.past = s.past.plus(*s.stats)
		s.stats = &Stats{Pending: s.stats.Pending, Lag: s.stats.Lag}
	}
}

// Busy records that there is something to do.
func (s *Session) Busy() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen > 0 {
		s.found = time.Now()
	}
	s.seen = 0
}

// behind returns for how long there has been more to do, as far as the run knows; 0 if it never caught up.
func (s *Session) behind() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	since := s.found
	if s.seen > 0 {
		since = s.progress // there may have been more to do ever since
	}
	if since.IsZero() {
		return 0
	}
	return max(1, time.Since(since))
}

// Report records how far the run has come. A run without progress for [Settings.StuckAfter] is ended.
// Progress is a report that differs from the previous one, or a call of CaughtUp or Active. The run of
// a job that does not follow may go without progress until its first report.
func (s *Session) Report(stats Stats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stats != nil && *s.stats == stats {
		return
	}
	s.stats, s.written = &stats, false
	s.progress = time.Now()
}

// Result records in a few words what the run has achieved. The text is shown with the job and in its
// history, if the job has no more to do.
func (s *Session) Result(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.result = text
}

// achieved returns the text that the run has passed to Result.
func (s *Session) achieved() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.result
}

// Active records progress that the statistics do not show, such as a response from a server.
func (s *Session) Active() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.progress = time.Now()
}

// total returns the statistics of the job, including this run. It returns false if the database already has them.
func (s *Session) total() (Stats, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stats == nil || s.written {
		return Stats{}, false
	}
	return s.sum(), true
}

// sum returns the statistics of the job. The caller must hold s.mu.
func (s *Session) sum() Stats {
	sum := s.past.plus(*s.stats)
	if s.seen > 0 { // caught up
		sum.Pending, sum.Lag = 0, 0
	}
	return sum
}

// wrote records that a total has been written to the database.
func (s *Session) wrote(total Stats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written = s.sum() == total
}

// stuck returns for how long there has been no progress.
func (s *Session) stuck() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stats == nil && !s.Document.Follow {
		return 0
	}
	return time.Since(s.progress)
}

// update stores the latest number of reasons to run.
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
