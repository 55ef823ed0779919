package metrics

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/feedctl/feedctl/publish"
)

// Published are the metrics of what reads entities and publishes them.
type Published struct {
	last atomic.Pointer[committed]
}

type committed struct {
	publish.Result
	at time.Time
}

// Note notes what has been published so far, at each commit.
func (p *Published) Note(r publish.Result) { p.last.Store(&committed{r, time.Now()}) }

// Result returns what was noted last.
func (p *Published) Result() publish.Result {
	if last := p.last.Load(); last != nil {
		return last.Result
	}
	return publish.Result{}
}

// Describe implements [prometheus.Collector], as collector does.
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
