// Package catalog lists the metrics of feedctl. It is the only place with their names, types, labels and help: the
// exported metrics, the documentation, the dashboard and the alerts are all made from it.
package catalog

import (
	"fmt"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Prefix is the beginning of the name of every metric of feedctl.
const Prefix = "feedctl_"

// A Type is the type of a metric.
type Type string

// The types. The names of a histogram's samples are the name of the metric followed by _bucket, _sum or _count.
const (
	Counter   Type = "counter"
	Gauge     Type = "gauge"
	Histogram Type = "histogram"
)

// A Metric describes a metric and its labels. If the metric has a unit, seconds or bytes, its name ends with it;
// otherwise it counts what its name says. A time is in seconds since 1970.
type Metric struct {
	Name    string // without Prefix
	Type    Type
	Labels  []string
	Help    string    // one or more sentences
	Buckets []float64 // of a histogram: the upper bounds, in the unit of the metric
}

// A Group describes the metrics that are exported by the same commands.
type Group struct {
	Title    string
	Commands []string // the commands that have the metrics
	Text     string   // remarks about all of the metrics, in Markdown; may be empty
	Metrics  []Metric
}

// Groups returns all metrics, in the order of the documentation.
func Groups() []Group {
	return []Group{
		process, served, feeds, readers, pages, maintenance, consumers, published, bridges, outboxes, copies, jobsOfAll, jobsOfNode, origins,
	}
}

// Names returns the names of all metrics, with Prefix, in the order of [Groups].
func Names() []string {
	var names []string
	for name := range byName() {
		names = append(names, Prefix+name)
	}
	slices.Sort(names)
	return names
}

// Find returns the metric with the given name, which includes Prefix.
func Find(name string) (Metric, bool) {
	if len(name) < len(Prefix) || name[:len(Prefix)] != Prefix {
		return Metric{}, false
	}
	e, ok := byName()[name[len(Prefix):]]
	return e.Metric, ok
}

// An entry is a metric and its description for Prometheus.
type entry struct {
	Metric
	desc *prometheus.Desc
}

var byName = sync.OnceValue(func() map[string]entry {
	all := map[string]entry{}
	for _, g := range Groups() {
		for _, m := range g.Metrics {
			all[m.Name] = entry{m, prometheus.NewDesc(Prefix+m.Name, m.Help, m.Labels, nil)}
		}
	}
	return all
})

// get returns the metric with the given name, which must have one of the types; otherwise it panics.
func get(name string, types ...Type) entry {
	e, ok := byName()[name]
	if !ok || !slices.Contains(types, e.Type) {
		panic(fmt.Sprintf("metric %s is not a %v of the list", name, types))
	}
	return e
}

// Desc describes a metric.
func Desc(name string) *prometheus.Desc { return get(name, Counter, Gauge, Histogram).desc }

// Send sends the value of a counter or gauge, with the values of its labels, in the order of [Metric.Labels].
func Send(to chan<- prometheus.Metric, name string, value float64, labels ...string) {
	e, kind := get(name, Counter, Gauge), prometheus.GaugeValue
	if e.Type == Counter {
		kind = prometheus.CounterValue
	}
	to <- prometheus.MustNewConstMetric(e.desc, kind, value, labels...)
}

// NewCounter returns a counter. If it has no labels, it is exported from the start, as 0.
func NewCounter(name string) *prometheus.CounterVec {
	e := get(name, Counter)
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: Prefix + name, Help: e.Help}, e.Labels)
	if len(e.Labels) == 0 {
		v.WithLabelValues()
	}
	return v
}

// NewGauge returns a gauge without labels.
func NewGauge(name string) prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{Name: Prefix + name, Help: get(name, Gauge).Help})
}

// NewHistogram returns a histogram. If it has no labels, it is exported from the start, as empty.
func NewHistogram(name string) *prometheus.HistogramVec {
	e := get(name, Histogram)
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: Prefix + name, Help: e.Help, Buckets: e.Buckets}, e.Labels)
	if len(e.Labels) == 0 {
		v.WithLabelValues()
	}
	return v
}

// Buckets returns the upper bounds of a histogram.
func Buckets(name string) []float64 { return get(name, Histogram).Buckets }

// ConstHistogram returns a histogram of values that were counted elsewhere, given the number and the sum of all
// values and, for each bound of the metric, the number of values up to that bound.
func ConstHistogram(name string, count uint64, sum float64, within []int, labels ...string) prometheus.Metric {
	e, buckets := get(name, Histogram), map[float64]uint64{}
	for n, bound := range e.Buckets {
		buckets[bound] = uint64(within[n])
	}
	return prometheus.MustNewConstHistogram(e.desc, count, sum, buckets, labels...)
}
