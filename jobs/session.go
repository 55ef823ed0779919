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
	// slows down for servers that ask for it. It ends the run if a server fails for too long.
	Transport http.RoundTripper

	client   *origins.Client // as Transport
	log      *runLog
	mu       sync.Mutex
	wanted   int64     // as the database had it last
	before   int64     // the same when the last check for more began, at the latest
	seen     int64     // what checks have answered; 0: nothing, or more has been found since
	found    time.Time // when more was found, the first time since the run had caught up
	past     Stats     // of the runs before
	stats    *Stats    // of this run; nil before the first report
	written  bool      // the database has stats
	result   string
	progress time.Time // when there was progress last
}

// CaughtUp notes that there is nothing more to do. The check for more to do began after the
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

// linger begins the part of the run in which it waits for more. What the kind reports in that part
// is added to what it has reported before.
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
	if s.seen > 0 {
		s.found = time.Now()
	}
	s.seen = 0
}

// behind returns how long there has been more to do, as far as the run knows; 0 if it never caught up.
func (s *Session) behind() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	since := s.found
	if s.seen > 0 {
		since = s.progress // what has happened since is not known
	}
	if since.IsZero() {
		return 0
	}
	return max(1, time.Since(since))
}

// Report notes how far the run has come. A run without progress for [Settings.StuckAfter] is
// ended: without a report that differs from the one before, a call of CaughtUp, or one of Active.
// A run of a job that does not follow may be without progress until its first report.
func (s *Session) Report(stats Stats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stats != nil && *s.stats == stats {
		return
	}
	s.stats, s.written = &stats, false
	s.progress = time.Now()
}

// Result notes in a few words what the run has achieved. It is shown with the job and in its
// history, if the job has no more to do.
func (s *Session) Result(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.result = text
}

// achieved returns what the run has noted as its result.
func (s *Session) achieved() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.result
}

// Active notes progress that the statistics do not show, such as a response of a server.
func (s *Session) Active() {
	s.mu.Lock()
	defer s.mu.Unlock()
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

// sum returns the statistics of the job. The caller must hold s.mu.
func (s *Session) sum() Stats {
	sum := s.past.plus(*s.stats)
	if s.seen > 0 { // caught up
		sum.Pending, sum.Lag = 0, 0
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

// update stores how many reasons to run there were.
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
