package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/feedctl/feedctl/jobs"
)

// Jobs are the metrics of a node, and of the scheduler, whose database each scrape queries. There
// are series for each kind, state and node, and for a limited number of namespaces, jobs and origins.
type Jobs struct {
	store       *jobs.Scheduler
	connections func() map[string]int
	runs        *prometheus.CounterVec
	healed      prometheus.Histogram
	woken       *prometheus.CounterVec
	origins     *names // of woken
	namespaces  *names // of delay
	delay       *prometheus.HistogramVec
	adopted     prometheus.Counter
	loop        *prometheus.HistogramVec
	failed      *prometheus.CounterVec
}

// NewJobs returns the metrics of a scheduler. They observe a node of this process, which has a number
// of connections to each HOST:PORT.
func NewJobs(store *jobs.Scheduler, connections func() map[string]int) *Jobs {
	return &Jobs{
		store: store, connections: connections, origins: newNames(maxOrigins), namespaces: newNames(maxNamespaces),
		healed: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "feedctl_job_heal_seconds", Help: "Time from when a lost node was last heard from to the start of one of its jobs on this node.",
			Buckets: []float64{5, 10, 15, 20, 25, 30, 60, 300, 1800},
		}),
		woken: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "feedctl_watch_wakeups_total", Help: "Idle jobs that this node has woken: by a watch that noticed a change, or by a sweep because no working watch covers them.",
		}, []string{"origin", "how"}),
		runs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "feedctl_job_runs_total", Help: "Runs of jobs that this node has ended.",
		}, []string{"kind", "end"}),
		delay: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "feedctl_job_start_delay_seconds", Help: "Time from when a job was due to its start on this node.",
			Buckets: []float64{.1, .25, .5, 1, 2, 5, 10, 30, 60, 300, 1800},
		}, []string{"namespace"}),
		adopted: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "feedctl_job_adoptions_total", Help: "Jobs of lost nodes that this node has made due again.",
		}),
		loop: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "feedctl_scheduler_tick_seconds", Help: "Time that one round of a loop of this node takes.",
			Buckets: []float64{.001, .005, .01, .05, .1, .5, 1, 5, 30},
		}, []string{"loop"}),
		failed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "feedctl_scheduler_db_errors_total", Help: "Rounds of a loop that failed, mostly because of the database of jobs.",
		}, []string{"loop"}),
	}
}

// Started implements [jobs.Observer].
func (j *Jobs) Started(d *jobs.Document, delay time.Duration) {
	if j.namespaces.add(d.Namespace) {
		j.delay.WithLabelValues(d.Namespace).Observe(max(0, delay).Seconds())
	}
}

// Ended implements [jobs.Observer].
func (j *Jobs) Ended(d *jobs.Document, how string) { j.runs.WithLabelValues(d.Kind, how).Inc() }

// Healed implements [jobs.Observer].
func (j *Jobs) Healed(after time.Duration) { j.healed.Observe(max(0, after).Seconds()) }

// Woken implements [jobs.Observer].
func (j *Jobs) Woken(origin, how string, jobs int) {
	j.woken.WithLabelValues(j.origins.label(origin), how).Add(float64(jobs))
}

// Adopted implements [jobs.Observer].
func (j *Jobs) Adopted(n int) { j.adopted.Add(float64(n)) }

// Looped implements [jobs.Observer].
func (j *Jobs) Looped(loop string, took time.Duration, err error) {
	j.loop.WithLabelValues(loop).Observe(took.Seconds())
	if err != nil {
		j.failed.WithLabelValues(loop).Inc()
	}
}

// Describe implements [prometheus.Collector], as collector does.
func (*Jobs) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (j *Jobs) Collect(to chan<- prometheus.Metric) {
	for _, c := range []prometheus.Collector{j.runs, j.delay, j.adopted, j.healed, j.woken, j.loop, j.failed} {
		c.Collect(to)
	}
	nodes := j.store.LocalNodes()
	for _, n := range nodes {
		sender(to).gauge("node_lease_remaining_seconds", "Time until the lease of this node expires. If it is not above 0, its jobs run elsewhere, or will.", n.Lease.Seconds(), "node", n.Name)
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	if err := j.query(ctx, sender(to), nodes); err != nil {
		to <- prometheus.NewInvalidMetric(prometheus.NewDesc("feedctl_jobs", "Jobs.", nil, nil), err)
	}
}
