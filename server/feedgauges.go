package server

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/feedctl/feedctl/chain"
)

// Limits of the metrics of single feeds.
const (
	maxGauged = 10_000 // feeds that have metrics, the first by name
	// gaugeRate is how many feeds are looked at in a second for their metrics.
	gaugeRate = 50
	// gaugeWait is how long a scrape waits for feeds to be looked at.
	gaugeWait = 50 * time.Millisecond
)

// feedGauges tell where each feed ends, as a producer that has died looks like one that
// has nothing to say. A scrape gets what requests and earlier scrapes have seen. It has
// the feeds looked at in the background, those first that were not looked at for
// longest; there is time to wait for a few of them.
type feedGauges struct {
	server                       *Server
	newest, time, feeds, leftOut *prometheus.Desc

	mu     sync.Mutex
	byName map[string]*gauged
	count  int           // of feeds in the store when they were last listed
	pass   chan struct{} // closed when the pass under way ends; nil if there is none
}

// gauged is what is known of the end of a feed.
type gauged struct {
	page *chain.Page // nil before the first look
	at   time.Time   // of the last look, also of one that failed
}

func newFeedGauges(s *Server) *feedGauges {
	labels := []string{"feed"}
	return &feedGauges{
		server:  s,
		newest:  prometheus.NewDesc("feedctl_feed_newest_page", "Number of the feed's newest page.", labels, nil),
		time:    prometheus.NewDesc("feedctl_feed_last_modified_timestamp_seconds", "Last-Modified of the feed's last entity.", labels, nil),
		feeds:   prometheus.NewDesc("feedctl_feeds", "Feeds in the store.", nil, nil),
		leftOut: prometheus.NewDesc("feedctl_feeds_left_out", "Feeds in the store that have no metrics of their own here: not looked at yet, unreadable, or beyond the first 10,000.", nil, nil),
		byName:  make(map[string]*gauged),
	}
}

// Describe implements [prometheus.Collector].
func (g *feedGauges) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{g.newest, g.time, g.feeds, g.leftOut} {
		out <- desc
	}
}

// Collect implements [prometheus.Collector].
func (g *feedGauges) Collect(out chan<- prometheus.Metric) {
	timer := time.NewTimer(gaugeWait)
	defer timer.Stop()
	select {
	case <-g.refresh():
	case <-timer.C:
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	shown := 0
	for name, known := range g.byName {
		if known.page == nil {
			continue
		}
		shown++
		out <- prometheus.MustNewConstMetric(g.newest, prometheus.GaugeValue, float64(known.page.Number), name)
		out <- prometheus.MustNewConstMetric(g.time, prometheus.GaugeValue, float64(known.page.Last.UnixMilli())/1000, name)
	}
	out <- prometheus.MustNewConstMetric(g.feeds, prometheus.GaugeValue, float64(g.count))
	out <- prometheus.MustNewConstMetric(g.leftOut, prometheus.GaugeValue, float64(max(g.count-shown, 0)))
}

// saw remembers the newest page of a feed that has metrics.
func (g *feedGauges) saw(p *chain.Page) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if known := g.byName[p.Feed]; known != nil {
		page := *p
		page.Checkpoint = nil // which may be large
		known.page, known.at = &page, time.Now()
	}
}

// refresh begins a pass over the feeds, unless one is under way. The channel is closed
// when it ends.
func (g *feedGauges) refresh() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pass != nil {
		return g.pass
	}
	done := make(chan struct{})
	if !g.server.reader.Run(func(ctx context.Context) {
		defer func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.pass = nil
			close(done)
		}()
		g.look(ctx)
	}) {
		close(done)
		return done
	}
	g.pass = done
	return done
}

// look looks at the feeds, as many as the time of a background task allows.
func (g *feedGauges) look(ctx context.Context) {
	names, err := g.list(ctx)
	if err != nil {
		g.server.log.WarnContext(ctx, "list feeds for their metrics", "error", err)
		return
	}
	rest := time.NewTimer(time.Second)
	defer rest.Stop()
	for i, name := range names {
		if i > 0 && i%gaugeRate == 0 {
			select {
			case <-rest.C:
				rest.Reset(time.Second)
			case <-g.server.closing:
				return
			case <-ctx.Done():
				return
			}
		}
		if err := g.lookAt(ctx, name); err != nil && ctx.Err() == nil {
			g.server.log.DebugContext(ctx, "look at a feed for its metrics", "feed", name, "error", err)
			g.leaveOut(name)
		}
	}
}

// list lists the feeds and returns those that have metrics, the one first that was not
// looked at for longest. It forgets those that are gone.
func (g *feedGauges) list(ctx context.Context) ([]string, error) {
	count, there := 0, make(map[string]*gauged)
	for name, err := range chain.Feeds(ctx, g.server.store, "") {
		if err != nil {
			return nil, err
		}
		if count++; count <= maxGauged {
			there[name] = new(gauged)
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for name := range there {
		if known := g.byName[name]; known != nil {
			there[name] = known
		}
	}
	g.byName, g.count = there, count
	return slices.SortedFunc(maps.Keys(there), func(a, b string) int {
		return cmp.Or(there[a].at.Compare(there[b].at), cmp.Compare(a, b))
	}), nil
}

// lookAt looks at one feed. What requests know of it helps, and gets to know it.
func (g *feedGauges) lookAt(ctx context.Context, name string) error {
	if f, ok := g.server.reader.Known(name); ok {
		_, err := f.Newest(ctx)
		return err
	}
	g.mu.Lock()
	known := g.byName[name]
	known.at = time.Now()
	last := known.page
	g.mu.Unlock()
	reader := chain.NewReader(g.server.store, name)
	if last != nil {
		reader.Remember(last)
	}
	p, err := reader.Newest(ctx)
	if err != nil {
		return err
	}
	g.saw(p)
	return nil
}

// leaveOut forgets the end of a feed that cannot be read.
func (g *feedGauges) leaveOut(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.byName[name].page = nil
}
