package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/feedctl/feedctl/internal/metrics/catalog"
	"github.com/feedctl/feedctl/jobs"
)

// Jobs holds the metrics of a node, and of the scheduler, whose database each scrape queries. There
// are series for each kind, state and node, and for a limited number of namespaces, jobs and origins.
type Jobs struct {
	store       *jobs.Scheduler
	connections func() map[string]int
	runs        *prometheus.CounterVec
	healed      *prometheus.HistogramVec
	woken       *prometheus.CounterVec
	origins     *catalog.Values // label values of the counter woken
	namespaces  *catalog.Values // label values of the histogram delay
	delay       *prometheus.HistogramVec
	adopted     *prometheus.CounterVec
	loop        *prometheus.HistogramVec
	failed      *prometheus.CounterVec
}

// NewJobs returns the metrics of a scheduler, and of the nodes in this process that use the result as
// their observer; connections returns how many connections are open to each HOST:PORT.
func NewJobs(store *jobs.Scheduler, connections func() map[string]int) *Jobs {
	return &Jobs{
		store: store, connections: connections, origins: catalog.NewValues(maxOrigins), namespaces: catalog.NewValues(maxNamespaces),
		healed: catalog.NewHistogram("job_heal_seconds"), woken: catalog.NewCounter("watch_wakeups_total"),
		runs: catalog.NewCounter("job_runs_total"), delay: catalog.NewHistogram("job_start_delay_seconds"),
		adopted: catalog.NewCounter("job_adoptions_total"), loop: catalog.NewHistogram("scheduler_tick_seconds"),
		failed: catalog.NewCounter("scheduler_db_errors_total"),
	}
}

// Started implements [jobs.Observer].
func (j *Jobs) Started(d *jobs.Document, delay time.Duration) {
	if j.namespaces.Add(d.Namespace) {
		j.delay.WithLabelValues(d.Namespace).Observe(max(0, delay).Seconds())
	}
}

// Ended implements [jobs.Observer].
func (j *Jobs) Ended(d *jobs.Document, how string) { j.runs.WithLabelValues(d.Kind, how).Inc() }

// Healed implements [jobs.Observer].
func (j *Jobs) Healed(after time.Duration) {
	j.healed.WithLabelValues().Observe(max(0, after).Seconds())
}

// Woken implements [jobs.Observer].
func (j *Jobs) Woken(origin, how string, jobs int) {
	j.woken.WithLabelValues(j.origins.Label(origin), how).Add(float64(jobs))
}

// Adopted implements [jobs.Observer].
func (j *Jobs) Adopted(n int) { j.adopted.WithLabelValues().Add(float64(n)) }

// Looped implements [jobs.Observer].
func (j *Jobs) Looped(loop string, took time.Duration, err error) {
	j.loop.WithLabelValues(loop).Observe(took.Seconds())
	if err != nil {
		j.failed.WithLabelValues(loop).Inc()
	}
}

// Describe implements [prometheus.Collector]. It sends nothing, like [collector.Describe].
func (*Jobs) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (j *Jobs) Collect(to chan<- prometheus.Metric) {
	for _, c := range []prometheus.Collector{j.runs, j.delay, j.adopted, j.healed, j.woken, j.loop, j.failed} {
		c.Collect(to)
	}
	nodes := j.store.LocalNodes()
	for _, n := range nodes {
		sender(to).value("node_lease_remaining_seconds", n.Lease.Seconds(), n.Name)
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	if err := j.query(ctx, sender(to), nodes); err != nil {
		to <- prometheus.NewInvalidMetric(catalog.Desc("jobs"), err)
	}
}
