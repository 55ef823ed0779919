package metrics

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/feedctl/feedctl/publish"
)

// Published holds the metrics of a command that reads entities and publishes them.
type Published struct {
	last atomic.Pointer[committed]
}

type committed struct {
	publish.Result
	at time.Time
}

// Note records the totals of the entities published so far. It is called at each commit.
func (p *Published) Note(r publish.Result) { p.last.Store(&committed{r, time.Now()}) }

// Result returns the last result that was passed to Note.
func (p *Published) Result() publish.Result {
	if last := p.last.Load(); last != nil {
		return last.Result
	}
	return publish.Result{}
}

// Describe implements [prometheus.Collector]. It sends nothing, like [collector.Describe].
func (*Published) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (p *Published) Collect(to chan<- prometheus.Metric) {
	r := p.Result()
	sender(to).count("publish_entities_total", r.Published)
	sender(to).count("publish_duplicates_total", r.Duplicates)
	sender(to).count("publish_bytes_total", r.Bytes)
	if last := p.last.Load(); last != nil {
		sender(to).time("publish_last_commit_timestamp_seconds", last.at)
	}
}
