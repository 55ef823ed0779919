package main

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/feedctl/feedctl/consumer"
)

// consumeMetrics are what a consumer has done, for Prometheus.
type consumeMetrics struct {
	mu        sync.Mutex
	last      consumer.Progress
	committed time.Time // when last was; zero before the first commit of this process
}

func (m *consumeMetrics) set(p consumer.Progress) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last, m.committed = p, time.Now()
}

// consumeCounts are the metrics, by the ends of their names. Of gauges those without a value
// are left out.
var consumeCounts = []struct {
	name, help string
	kind       prometheus.ValueType
	value      func(*consumeMetrics) (float64, bool)
}{
	{"entities_total", "Entities that this process has committed.", prometheus.CounterValue, consumed(func(p *consumer.Progress) int64 { return p.Entities })},
	{"bytes_total", "Bytes of their bodies.", prometheus.CounterValue, consumed(func(p *consumer.Progress) int64 { return p.Bytes })},
	{"commits_total", "Commits of the sink.", prometheus.CounterValue, consumed(func(p *consumer.Progress) int64 { return p.Batches })},
	{"rejected_total", "Entities that went into quarantine, or were refused.", prometheus.CounterValue, consumed(func(p *consumer.Progress) int64 { return p.Rejected.Total() })},
	{"gaps_total", "Gaps that were passed as --on-gap says.", prometheus.CounterValue, consumed(func(p *consumer.Progress) int64 { return int64(p.Gaps) })},
	{"last_commit_timestamp_seconds", "When the sink last committed.", prometheus.GaugeValue, func(m *consumeMetrics) (float64, bool) { return seconds(m.committed) }},
	{"position_timestamp_seconds", "Last-Modified of the last entity that was committed.", prometheus.GaugeValue, func(m *consumeMetrics) (float64, bool) { return seconds(m.last.Position.LastModified) }},
	{"newest_timestamp_seconds", "Last-Modified of the newest page of the feed, as far as known.", prometheus.GaugeValue, func(m *consumeMetrics) (float64, bool) { return seconds(m.last.Newest) }},
}

func consumed(count func(*consumer.Progress) int64) func(*consumeMetrics) (float64, bool) {
	return func(m *consumeMetrics) (float64, bool) { return float64(count(&m.last)), true }
}

// seconds returns a time as Prometheus writes it, and whether there is one.
func seconds(t time.Time) (float64, bool) { return float64(t.UnixMilli()) / 1000, !t.IsZero() }

func consumeMetric(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("feedctl_consume_"+name, help, nil, nil)
}

// Describe implements [prometheus.Collector].
func (m *consumeMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, c := range consumeCounts {
		to <- consumeMetric(c.name, c.help)
	}
}

// Collect implements [prometheus.Collector].
func (m *consumeMetrics) Collect(to chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range consumeCounts {
		if v, ok := c.value(m); ok {
			to <- prometheus.MustNewConstMetric(consumeMetric(c.name, c.help), c.kind, v)
		}
	}
}
