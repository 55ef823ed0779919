package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/feedctl/feedctl/jobs"
)

// Jobs are the metrics of a node, and of the scheduler, whose database each scrape queries. No
// label is a job: there is a series for each namespace, kind and state at most, and for each
// node.
type Jobs struct {
	store   *jobs.Scheduler
	runs    *prometheus.CounterVec
	delay   *prometheus.HistogramVec
	adopted prometheus.Counter
	loop    *prometheus.HistogramVec
	failed  *prometheus.CounterVec
}

// NewJobs returns the metrics of a scheduler. They observe a node of this process.
func NewJobs(store *jobs.Scheduler) *Jobs {
	return &Jobs{
		store: store,
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
	j.delay.WithLabelValues(d.Namespace).Observe(max(0, delay).Seconds())
}

// Ended implements [jobs.Observer].
func (j *Jobs) Ended(d *jobs.Document, how string) { j.runs.WithLabelValues(d.Kind, how).Inc() }

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
	for _, c := range []prometheus.Collector{j.runs, j.delay, j.adopted, j.loop, j.failed} {
		c.Collect(to)
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	if err := j.query(ctx, to); err != nil {
		to <- prometheus.NewInvalidMetric(prometheus.NewDesc("feedctl_jobs", "Jobs.", nil, nil), err)
	}
}

// query sends what the database has. It is the same on all nodes.
func (j *Jobs) query(ctx context.Context, to chan<- prometheus.Metric) error {
	send := func(name, help string, value float64, labels ...string) {
		names := map[string]string{}
		for n := 0; n < len(labels); n += 2 {
			names[labels[n]] = labels[n+1]
		}
		to <- prometheus.MustNewConstMetric(prometheus.NewDesc("feedctl_"+name, help, nil, names), prometheus.GaugeValue, value)
	}
	counts, err := j.store.Counts(ctx)
	if err != nil {
		return err
	}
	for _, c := range counts {
		labels := []string{"namespace", c.Namespace, "kind", c.Kind, "state", string(c.State)}
		send("jobs", "Jobs.", float64(c.Jobs), labels...)
		send("job_pending", "Entities that these jobs still have to read, as far as known.", float64(c.Pending), labels...)
		send("job_lag_seconds", "The longest lag of one of these jobs, as far as known.", c.Lag.Seconds(), labels...)
	}
	nodes, err := j.store.Nodes(ctx)
	if err != nil {
		return err
	}
	for k := range nodes {
		n := &nodes[k]
		if k+1 < len(nodes) && nodes[k+1].Name == n.Name {
			continue // it was started again
		}
		alive := 0.0
		if n.Alive {
			alive = 1
		}
		send("node_alive", "1 if the lease of the node has not expired.", alive, "node", n.Name)
		send("node_heard_seconds", "Time since the node was last heard of.", n.Age.Seconds(), "node", n.Name)
		send("node_slots", "Slots of the node.", float64(n.Running), "node", n.Name, "use", "used")
		send("node_slots", "Slots of the node.", float64(max(0, n.Slots-n.Running)), "node", n.Name, "use", "free")
	}
	origins, err := j.store.Origins(ctx)
	if err != nil {
		return err
	}
	states := map[string]int{"up": 0, "waits": 0, "down": 0}
	for n := range origins {
		switch o := &origins[n]; {
		case o.Down:
			states["down"]++
		case time.Until(o.Until) > 0:
			states["waits"]++
		default:
			states["up"]++
		}
	}
	for state, n := range states {
		send("origins", "Servers that jobs use.", float64(n), "state", state)
	}
	tenants, err := j.store.Tenants(ctx)
	for _, t := range tenants {
		send("tenant_usage_seconds", "Slot seconds used by ended runs of the namespace, halved every usage-half-life.", t.Usage, "namespace", t.Namespace)
		send("tenant_shares", "Shares of the namespace.", float64(t.Shares), "namespace", t.Namespace)
		send("tenant_waiting", "Jobs of the namespace that are due and wait.", float64(t.Waiting), "namespace", t.Namespace)
	}
	return err
}
