package metrics

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/feedctl/feedctl/jobs"
)

// Limits of the numbers of series. What exceeds them is left out, and counted.
const (
	maxOrigins    = 500
	maxJobs       = 1000
	maxNamespaces = 200
)

// names are the values that a label may have, up to a number.
type names struct {
	most  int
	mu    sync.Mutex
	known map[string]bool
}

func newNames(most int) *names { return &names{most: most, known: map[string]bool{}} }

// add reports whether the label may have a value.
func (n *names) add(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.known[name] && len(n.known) == n.most {
		return false
	}
	n.known[name] = true
	return true
}

// label returns a value, or "other" if there are too many.
func (n *names) label(name string) string {
	if name == "" || !n.add(name) {
		return "other"
	}
	return name
}

// keep forgets all values but the given ones, and returns those that it has forgotten.
func (n *names) keep(some map[string]bool) (gone []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for name := range n.known {
		if !some[name] {
			gone = append(gone, name)
			delete(n.known, name)
		}
	}
	return gone
}

// gauge sends a gauge with labels: names and values in turn.
func (to sender) gauge(name, help string, v float64, labels ...string) {
	to <- prometheus.MustNewConstMetric(prometheus.NewDesc("feedctl_"+name, help, nil, pairs(labels)), prometheus.GaugeValue, v)
}

func pairs(labels []string) prometheus.Labels {
	all := prometheus.Labels{}
	for n := 0; n < len(labels); n += 2 {
		all[labels[n]] = labels[n+1]
	}
	return all
}

// query sends what the database has, and what is known about the origins that it has.
func (j *Jobs) query(ctx context.Context, to sender, here []jobs.LocalNode) error {
	counts, err := j.store.Counts(ctx, lagBounds...)
	if err != nil {
		return err
	}
	all, some := map[string]bool{}, map[string]bool{} // namespaces
	for n := range counts {
		name := counts[n].Namespace
		if all[name] = true; len(some) < maxNamespaces {
			some[name] = true
		}
	}
	for _, name := range j.namespaces.keep(all) {
		j.delay.DeleteLabelValues(name)
	}
	to.gauge("namespaces_left_out", "Namespaces without metrics, as there are too many of them.", float64(len(all)-len(some)))
	countJobs(to, slices.DeleteFunc(counts, func(c jobs.Count) bool { return !some[c.Namespace] }))
	for _, query := range []func(context.Context, sender) error{j.queryLags, j.queryNodes, j.queryWatches} {
		if err := query(ctx, to); err != nil {
			return err
		}
	}
	if err := j.queryTenants(ctx, to, some); err != nil {
		return err
	}
	return j.queryOrigins(ctx, to, here)
}

// lagBounds are those of the histogram of lags.
var lagBounds = []time.Duration{time.Second, 5 * time.Second, 15 * time.Second, time.Minute, 5 * time.Minute, 30 * time.Minute, 4 * time.Hour, 24 * time.Hour}

// countJobs sends what the jobs of namespaces still have to do.
func countJobs(to sender, counts []jobs.Count) {
	lags := map[string]*jobs.Count{}
	for n := range counts {
		c := &counts[n]
		labels := []string{"namespace", c.Namespace, "kind", c.Kind, "state", string(c.State)}
		to.gauge("jobs", "Jobs.", float64(c.Jobs), labels...)
		if c.Pending >= 0 {
			to.gauge("jobs_pending", "Entities that these jobs still have to read, as far as known.", float64(c.Pending), labels...)
		}
		if c.Lag >= 0 {
			to.gauge("jobs_longest_lag_seconds", "The longest lag of one of these jobs, as far as known.", c.Lag.Seconds(), labels...)
		}
		sum, ok := lags[c.Namespace]
		if !ok {
			sum = &jobs.Count{Within: make([]int, len(lagBounds))}
			lags[c.Namespace] = sum
		}
		sum.Lags += c.Lags
		sum.LagSum += c.LagSum
		for n := range sum.Within {
			sum.Within[n] += c.Within[n]
		}
	}
	for namespace, c := range lags {
		buckets := map[float64]uint64{}
		for n, bound := range lagBounds {
			buckets[bound.Seconds()] = uint64(c.Within[n])
		}
		desc := prometheus.NewDesc("feedctl_jobs_lag_seconds", "Jobs of the namespace by their lags now. It counts jobs rather than events: do not use rate.", nil, prometheus.Labels{"namespace": namespace})
		to <- prometheus.MustNewConstHistogram(desc, uint64(c.Lags), c.LagSum.Seconds(), buckets)
	}
}

func (j *Jobs) queryLags(ctx context.Context, to sender) error {
	some, all, err := j.store.Lags(ctx, maxJobs)
	if err != nil {
		return err
	}
	for _, l := range some {
		if l.Pending >= 0 {
			to.gauge("job_pending", "Entities that the job still has to read.", float64(l.Pending), "namespace", l.Namespace, "job", l.Name)
		}
		if l.Lag >= 0 {
			to.gauge("job_lag_seconds", "Age of the oldest change that the job has not processed.", l.Lag.Seconds(), "namespace", l.Namespace, "job", l.Name)
		}
	}
	to.gauge("jobs_left_out", "Jobs with \"metrics: true\" that have none, as there are too many of them.", float64(max(0, all-len(some))))
	return nil
}

func (j *Jobs) queryNodes(ctx context.Context, to sender) error {
	nodes, err := j.store.Nodes(ctx)
	for k := range nodes {
		n := &nodes[k]
		if k+1 < len(nodes) && nodes[k+1].Name == n.Name {
			continue // it was started again
		}
		alive := 0.0
		if n.Alive {
			alive = 1
		}
		to.gauge("node_alive", "1 if the lease of the node has not expired.", alive, "node", n.Name)
		to.gauge("node_heard_seconds", "Time since the node was last heard from.", n.Age.Seconds(), "node", n.Name)
		to.gauge("node_slots", "Slots of the node.", float64(n.Running), "node", n.Name, "use", "used")
		to.gauge("node_slots", "Slots of the node.", float64(max(0, n.Slots-n.Running)), "node", n.Name, "use", "free")
	}
	return err
}

func (j *Jobs) queryWatches(ctx context.Context, to sender) error {
	ages, err := j.store.WatchAges(ctx, maxOrigins)
	for _, w := range ages {
		age := w.Age.Seconds()
		if w.Age < 0 {
			age = math.Inf(1)
		}
		to.gauge("watch_age_seconds", "Time since all changes of the origin up to then had woken their jobs; +Inf if that was never the case.", age, "origin", cmp.Or(w.Origin, "other"))
	}
	return err
}

func (j *Jobs) queryTenants(ctx context.Context, to sender, namespaces map[string]bool) error {
	tenants, err := j.store.Tenants(ctx)
	for _, t := range tenants {
		if !namespaces[t.Namespace] {
			continue
		}
		to.gauge("tenant_usage_seconds", "Slot seconds used by ended runs of the namespace, halved every usage-half-life.", t.Usage, "namespace", t.Namespace)
		to.gauge("tenant_shares", "Shares of the namespace.", float64(t.Shares), "namespace", t.Namespace)
		to.gauge("tenant_waiting", "Jobs of the namespace that are due and wait.", float64(t.Waiting), "namespace", t.Namespace)
	}
	return err
}

// The values of feedctl_origin_state.
const (
	originUp = iota
	originWaits
	originDown
)

func (j *Jobs) queryOrigins(ctx context.Context, to sender, here []jobs.LocalNode) error {
	origins, err := j.store.Origins(ctx)
	if err != nil {
		return err
	}
	delays := map[string]time.Duration{}
	for _, n := range here {
		for origin, delay := range n.Delays {
			delays[origin] = max(delays[origin], delay)
		}
	}
	state := func(o *jobs.OriginStatus) int {
		switch {
		case o.Down:
			return originDown
		case o.Waits:
			return originWaits
		}
		return originUp
	}
	totals := [3]int{}
	for n := range origins {
		totals[state(&origins[n])]++
	}
	for n, name := range []string{"up", "waits", "down"} {
		to.gauge("origins", "Servers that jobs use.", float64(totals[n]), "state", name)
	}
	slices.SortStableFunc(origins, func(a, b jobs.OriginStatus) int { // those that matter first
		return cmp.Or(cmp.Compare(state(&b), state(&a)), cmp.Compare(delays[b.Origin], delays[a.Origin]), cmp.Compare(b.Jobs, a.Jobs))
	})
	connections := j.connections()
	for n := range origins[:min(len(origins), maxOrigins)] {
		o := &origins[n]
		to.gauge("origin_state", "0 if the server is up, 1 if it has asked its clients to wait, 2 if it is down.", float64(state(o)), "origin", o.Origin)
		to.gauge("origin_delay_seconds", "Time that each job of this node leaves between two requests, because the server has refused some as too many.", delays[o.Origin].Seconds(), "origin", o.Origin)
		if scheme, address, _ := strings.Cut(o.Origin, "://"); scheme == "http" || scheme == "https" {
			to.gauge("origin_connections", "Connections of this node for HTTP.", float64(connections[address]), "origin", o.Origin)
		}
	}
	to.gauge("origins_left_out", "Servers without metrics of their own, as there are too many of them.", float64(max(0, len(origins)-maxOrigins)))
	return nil
}
