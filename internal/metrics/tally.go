package metrics

import (
	"maps"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// A Tally counts requests by their operation.
type Tally struct {
	mu    sync.Mutex
	count map[string]uint64
}

// Add counts a request.
func (t *Tally) Add(operation string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count == nil {
		t.count = make(map[string]uint64)
	}
	t.count[operation]++
}

// Requests implements [storage.Counter].
func (t *Tally) Requests() map[string]uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.count)
}

// Counts are the metrics of a tally: one for each label.
func Counts(name, help, label string, t *Tally) prometheus.Collector {
	return counts{prometheus.NewDesc(name, help, []string{label}, nil), t}
}

// counts are the metrics of a tally.
type counts struct {
	desc  *prometheus.Desc
	tally *Tally
}

// Describe implements [prometheus.Collector].
func (c counts) Describe(to chan<- *prometheus.Desc) { to <- c.desc }

// Collect implements [prometheus.Collector].
func (c counts) Collect(to chan<- prometheus.Metric) {
	for label, n := range c.tally.Requests() {
		to <- prometheus.MustNewConstMetric(c.desc, prometheus.CounterValue, float64(n), label)
	}
}
