package main

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/feedctl/feedctl/consumer"
)

// A consumed is what a consumer has done.
type consumed struct {
	consumer.Progress
	committed time.Time // when the sink last did; zero before the first commit of this process
}

// A consumeGauge keeps what a consumer has done for /metrics.
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

func (g *consumeGauge) metrics() prometheus.Collector {
	return &metrics[consumed]{"feedctl_consume_", []metric[consumed]{
		{name: "entities_total", help: "Entities that this process has committed.", value: func(c consumed) int64 { return c.Entities }},
		{name: "bytes_total", help: "Bytes of their bodies.", value: func(c consumed) int64 { return c.Bytes }},
		{name: "commits_total", help: "Commits of the sink.", value: func(c consumed) int64 { return c.Batches }},
		{name: "rejected_total", help: "Entities that went into quarantine, or were refused.", value: func(c consumed) int64 { return c.Rejected.Total() }},
		{name: "gaps_total", help: "Gaps that were passed as --on-gap says.", value: func(c consumed) int64 { return int64(c.Gaps) }},
		{name: "last_commit_timestamp_seconds", help: "When the sink last committed.", time: func(c consumed) time.Time { return c.committed }},
		{name: "position_timestamp_seconds", help: "Last-Modified of the last entity that was committed.", time: func(c consumed) time.Time { return c.Position.LastModified }},
		{name: "newest_timestamp_seconds", help: "Last-Modified of the newest page of the feed, as far as known.", time: func(c consumed) time.Time { return c.Newest }},
	}, g.get}
}
