package consumer

import "time"

// A Search is the progress of a search for the page at which to start reading. The search goes back
// page by page, because the server has no links that lead there; see [Config.Searching].
type Search struct {
	Pages int       // that have been passed
	At    time.Time // Last-Modified of the last page passed
	// Left is an estimate of how much longer the search takes. It is negative if there is no
	// estimate, as in a search for the beginning of the feed, since the time of the oldest page is
	// not known.
	Left time.Duration
}

const (
	// crawlReport is how many pages a crawl goes back between log messages.
	crawlReport = 10_000
	// saveWay is the interval at which the way of a crawl is saved. If the process is killed, the
	// way since the last time is lost.
	saveWay = time.Minute
)

// A search reports the progress of a crawl, and remembers its way.
type search struct {
	Search
	s     *session
	way   *way
	begun time.Time
	saved time.Time // when the way was last saved
	from  time.Time // Last-Modified of the page with which the crawl began
	to    time.Time // time at which the crawl ends; zero if it ends at the beginning of the feed
}

func (w *walk) newSearch(from *Page, to time.Time) *search {
	now := time.Now()
	return &search{s: w.s, way: w.s.way(w.url), begun: now, saved: now, from: from.LastModified, to: to}
}

// reached records that the crawl has reached p, and reports the progress.
func (k *search) reached(p *Page) {
	k.Pages++
	k.At, k.Left = p.LastModified, k.left(p.LastModified)
	k.way.pass(p)
	if k.s.config.Searching != nil && k.Pages > 1 {
		k.s.config.Searching(k.Search)
	}
	if now := time.Now(); now.Sub(k.saved) >= saveWay {
		k.saved = now
		k.way.save()
	}
	if k.Pages%crawlReport != 0 {
		return
	}
	log := k.s.config.Logger.With("pages", k.Pages, "time", k.At, "at", shown(p.URL))
	if k.Left >= 0 {
		log = log.With("left", k.Left.Round(time.Second))
	}
	log.InfoContext(k.s.ctx, "searching for the start of the feed")
}

// left estimates the remaining time from how far back in time the crawl has come.
func (k *search) left(at time.Time) time.Duration {
	done, rest := k.from.Sub(at), at.Sub(k.to)
	if k.to.IsZero() || done <= 0 || rest < 0 {
		return -1
	}
	return time.Duration(float64(time.Since(k.begun)) * float64(rest) / float64(done))
}

// end is called when the crawl ends.
func (k *search) end() {
	k.way.save()
	if k.s.config.Searching != nil && k.Pages > 1 {
		k.s.config.Searching(Search{})
	}
}
