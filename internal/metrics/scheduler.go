package metrics

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/feedctl/feedctl/internal/metrics/catalog"
	"github.com/feedctl/feedctl/jobs"
)

// Limits on the numbers of series. Whatever exceeds them is left out and counted.
const (
	maxOrigins    = 500
	maxJobs       = 1000
	maxNamespaces = 200
)

// query sends the metrics that are read from the database, and what this process knows about the
// origins that it finds there.
func (j *Jobs) query(ctx context.Context, to sender, here []jobs.LocalNode) error {
	counts, err := j.store.Counts(ctx, lagBounds()...)
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
	for _, name := range j.namespaces.Keep(all) {
		j.delay.DeleteLabelValues(name)
	}
	to.value("namespaces_left_out", float64(len(all)-len(some)))
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

// lagBounds returns the bounds of the histogram of lags.
func lagBounds() (bounds []time.Duration) {
	for _, seconds := range catalog.Buckets("jobs_lag_seconds") {
		bounds = append(bounds, time.Duration(seconds)*time.Second)
	}
	return bounds
}

// countJobs sends the numbers of jobs, and how much they still have to do.
func countJobs(to sender, counts []jobs.Count) {
	lags := map[string]*jobs.Count{}
	for n := range counts {
		c := &counts[n]
		labels := []string{c.Namespace, c.Kind, string(c.State)}
		to.value("jobs", float64(c.Jobs), labels...)
		if c.Pending >= 0 {
			to.value("jobs_pending", float64(c.Pending), labels...)
		}
		if c.Lag >= 0 {
			to.value("jobs_longest_lag_seconds", c.Lag.Seconds(), labels...)
		}
		sum, ok := lags[c.Namespace]
		if !ok {
			sum = &jobs.Count{Within: make([]int, len(c.Within))}
			lags[c.Namespace] = sum
		}
		sum.Lags += c.Lags
		sum.LagSum += c.LagSum
		for n := range sum.Within {
			sum.Within[n] += c.Within[n]
		}
	}
	for namespace, c := range lags {
		to <- catalog.ConstHistogram("jobs_lag_seconds", uint64(c.Lags), c.LagSum.Seconds(), c.Within, namespace)
	}
}

func (j *Jobs) queryLags(ctx context.Context, to sender) error {
	some, all, err := j.store.Lags(ctx, maxJobs)
	if err != nil {
		return err
	}
	for _, l := range some {
		if l.Pending >= 0 {
			to.value("job_pending", float64(l.Pending), l.Namespace, l.Name)
		}
		if l.Lag >= 0 {
			to.value("job_lag_seconds", l.Lag.Seconds(), l.Namespace, l.Name)
		}
	}
	to.value("jobs_left_out", float64(max(0, all-len(some))))
	return nil
}

func (j *Jobs) queryNodes(ctx context.Context, to sender) error {
	nodes, err := j.store.Nodes(ctx)
	for k := range nodes {
		n := &nodes[k]
		if k+1 < len(nodes) && nodes[k+1].Name == n.Name {
			continue // the node was restarted: the last entry is the current one
		}
		alive := 0.0
		if n.Alive {
			alive = 1
		}
		to.value("node_alive", alive, n.Name)
		to.value("node_heard_seconds", n.Age.Seconds(), n.Name)
		to.value("node_slots", float64(n.Running), n.Name, "used")
		to.value("node_slots", float64(max(0, n.Slots-n.Running)), n.Name, "free")
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
		to.value("watch_age_seconds", age, cmp.Or(w.Origin, "other"))
	}
	return err
}

func (j *Jobs) queryTenants(ctx context.Context, to sender, namespaces map[string]bool) error {
	tenants, err := j.store.Tenants(ctx)
	for _, t := range tenants {
		if !namespaces[t.Namespace] {
			continue
		}
		to.value("tenant_usage_seconds", t.Usage, t.Namespace)
		to.value("tenant_shares", float64(t.Shares), t.Namespace)
		to.value("tenant_waiting", float64(t.Waiting), t.Namespace)
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
		to.value("origins", float64(totals[n]), name)
	}
	slices.SortStableFunc(origins, func(a, b jobs.OriginStatus) int { // the most important ones first
		return cmp.Or(cmp.Compare(state(&b), state(&a)), cmp.Compare(delays[b.Origin], delays[a.Origin]), cmp.Compare(b.Jobs, a.Jobs))
	})
	connections := j.connections()
	for n := range origins[:min(len(origins), maxOrigins)] {
		o := &origins[n]
		to.value("origin_state", float64(state(o)), o.Origin)
		to.value("origin_delay_seconds", delays[o.Origin].Seconds(), o.Origin)
		if scheme, address, _ := strings.Cut(o.Origin, "://"); scheme == "http" || scheme == "https" {
			to.value("origin_connections", float64(connections[address]), o.Origin)
		}
	}
	to.value("origins_left_out", float64(max(0, len(origins)-maxOrigins)))
	return nil
}
