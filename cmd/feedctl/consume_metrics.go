package main

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/internal/metrics"
	"github.com/feedctl/feedctl/internal/progress"
)

// A consumed is what a consumer has done.
type consumed struct {
	consumer.Progress
	committed time.Time // when the sink last did; zero before the first commit of this process
}

// A consumeGauge keeps what a consumer has done, for /metrics and for people.
type consumeGauge struct {
	mu  sync.Mutex
	now consumed
}

func (g *consumeGauge) set(p consumer.Progress) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now = consumed{p, time.Now()}
}

func (g *consumeGauge) get() consumed {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.now
}

func (g *consumeGauge) status() progress.Status {
	p := g.get()
	s := progress.Status{Entities: p.Entities, Bytes: p.Bytes, Lag: p.Lag}
	if p.Newest.IsZero() {
		s.Lag = -1
	}
	return s
}

func (g *consumeGauge) metrics() prometheus.Collector {
	return metrics.New("feedctl_consume_", g.get, []metrics.Metric[consumed]{
		{Name: "entities_total", Help: "Entities that this process has committed.", Value: func(c consumed) int64 { return c.Entities }},
		{Name: "bytes_total", Help: "Bytes of their bodies.", Value: func(c consumed) int64 { return c.Bytes }},
		{Name: "commits_total", Help: "Commits of the sink.", Value: func(c consumed) int64 { return c.Batches }},
		{Name: "rejected_total", Help: "Entities that went into quarantine, or were refused.", Value: func(c consumed) int64 { return c.Rejected.Total() }},
		{Name: "gaps_total", Help: "Gaps that were passed as --on-gap says.", Value: func(c consumed) int64 { return int64(c.Gaps) }},
		{Name: "last_commit_timestamp_seconds", Help: "When the sink last committed.", Time: func(c consumed) time.Time { return c.committed }},
		{Name: "position_timestamp_seconds", Help: "Last-Modified of the last entity that was committed.", Time: func(c consumed) time.Time { return c.Position.LastModified }},
		{Name: "newest_timestamp_seconds", Help: "Last-Modified of the newest page of the feed, as far as known.", Time: func(c consumed) time.Time { return c.Newest }},
	})
}
