package console

import (
	"strconv"
	"sync"
	"time"

	"github.com/feedctl/feedctl/internal/human"
	"github.com/feedctl/feedctl/internal/lru"
)

// rates computes the rates of jobs from the totals that were shown on pages earlier. Runs report totals every few
// seconds.
type rates struct {
	mu   sync.Mutex
	seen *lru.Cache[string, *samples]
}

// Limits of rates.
const (
	ratedJobs = 10_000          // jobs whose samples are kept
	rateTime  = 5 * time.Minute // the maximum age of a sample that is used
)

// samples holds the last two reports of a job that were shown on pages.
type samples struct{ before, last sample }

type sample struct {
	entities int64
	at       time.Time
}

func newRates() *rates { return &rates{seen: lru.New[string, *samples](ratedJobs)} }

// of records a report of a job, and returns how many entities a second the job processes, or "" if that is not known.
func (r *rates) of(job string, entities int64, at time.Time, runs bool) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.seen.Add(job, &samples{}, 1)
	if at.After(s.last.at) {
		s.before, s.last = s.last, sample{entities, at}
	}
	took := s.last.at.Sub(s.before.at)
	if !runs || s.before.at.IsZero() || took > rateTime || s.last.entities < s.before.entities {
		return ""
	}
	perSecond := float64(s.last.entities-s.before.entities) / took.Seconds()
	if perSecond > 0 && perSecond < 10 {
		return strconv.FormatFloat(perSecond, 'f', 1, 64)
	}
	return human.Count(int64(perSecond))
}
