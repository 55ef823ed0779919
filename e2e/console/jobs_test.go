package console_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/feedctl/feedctl/jobs"
)

// scheduler implements [console.Jobs] with jobs in every state.
type scheduler struct {
	mu    sync.Mutex
	now   time.Time
	jobs  []*jobs.Description
	acted []string // "pause ID", "resume ID", "restart ID"
}

// newScheduler returns a scheduler with the jobs of a shop.
func newScheduler() *scheduler {
	s := &scheduler{now: time.Now().UTC()}
	const feeds = "https://feeds.example/feeds/"
	s.add("shop/catalogue", "bridge couchdb", "https://db.example/products", "products", jobs.Running, 3*time.Hour, "follows _changes", &jobs.Stats{Entities: 48_213, Bytes: 31 << 20, Pending: 0, Lag: 0})
	s.add("shop/prices-to-web", "consume", feeds+"prices", "postgres:///web?table=prices", jobs.Running, 41*time.Minute, "", &jobs.Stats{Entities: 1_502_118, Bytes: 214 << 20, Pending: 12, Lag: 2 * time.Second})
	s.add("shop/stock-to-web", "consume", feeds+"stock", "postgres:///web?table=stock", jobs.Crashing, 6*time.Minute, "", &jobs.Stats{Entities: 918_402, Pending: 2_144, Lag: 6*time.Minute + 12*time.Second, Rejected: 3})
	s.add("shop/orders-archive", "consume", feeds+"orders", "jsonl:/srv/archive/orders.jsonl", jobs.Idle, 38*time.Second, "caught up", &jobs.Stats{Entities: 18_041})
	s.add("shop/products-to-search", "consume", feeds+"products", "couchdb:https://search.example/products", jobs.Idle, 7*time.Minute, "caught up", &jobs.Stats{Entities: 48_213})
	s.add("shop/countries", "consume", feeds+"countries", "sqlite:/srv/web/countries.db?table=countries", jobs.Paused, 5*24*time.Hour, "", &jobs.Stats{Entities: 250, Pending: -1, Lag: -1})
	s.add("checks/verify-prices", "verify", feeds+"prices", "", jobs.Completed, 11*time.Hour, "", &jobs.Stats{Entities: 1_502_106})
	s.add("checks/verify-stock", "verify", feeds+"stock", "", jobs.Pending, 2*time.Hour, "waits for its schedule", nil)
	s.add("partners/eu-central-warehouse-inventory-adjustments-by-location-and-lot-number", "consume", feeds+"stock", "kinto:https://kinto.example/v1/buckets/warehouse/collections/inventory-adjustments-by-location-and-lot-number", jobs.Failed, 26*time.Hour, "", &jobs.Stats{Entities: 1_234_567_890_123, Pending: 98_765_432_109, Lag: 26 * time.Hour})
	s.jobs[2].Errors, s.jobs[2].NotBefore = 7, s.now.Add(48*time.Second)
	s.jobs[2].LastError = &jobs.RunError{
		Time: s.now.Add(-12 * time.Second), Message: "connect to postgres:///web: dial tcp 127.0.0.1:5432: connect: connection refused", Hint: "check that the server is running",
	}
	last := s.jobs[len(s.jobs)-1]
	last.Errors, last.LastError = 1, &jobs.RunError{
		Time: last.Since, Message: "write 500 records: 403 Forbidden: this user cannot access this resource", Hint: "give the user the permission record:create in the collection",
	}
	return s
}

func (s *scheduler) add(id, kind, source, target string, state jobs.State, age time.Duration, why string, stats *jobs.Stats) {
	namespace, name, _ := strings.Cut(id, "/")
	d := &jobs.Description{Listed: jobs.Listed{
		Job: jobs.Job{
			Document:   jobs.Document{Namespace: namespace, Name: name, Kind: kind, Source: source, Target: target, Follow: kind != "verify", Paused: state == jobs.Paused},
			Generation: 2, Created: s.now.Add(-30 * 24 * time.Hour), State: state, Reason: why, Epoch: 14, Observed: 2,
			Started: s.now.Add(-age), Since: s.now.Add(-age),
		},
		State: state, Stats: stats, Updated: s.now.Add(-2 * time.Second), Now: s.now,
	}, Why: why}
	if kind == "verify" {
		d.Document.Schedule = "17 3 * * *"
	}
	if state == jobs.Crashing {
		d.Job.State = jobs.Pending
	}
	if state == jobs.Running {
		d.Node, d.Owner, d.Lease = "alder", "alder-1", &jobs.Lease{Age: 2 * time.Second}
	}
	d.Command = strings.TrimSpace(fmt.Sprintf("feedctl %s %s", kind, source))
	if target != "" {
		d.Command += " --into " + target
	}
	d.Events = []jobs.Event{
		{Time: s.now.Add(-age), Type: jobs.EventType("started"), Node: "alder", Reason: why},
		{Time: s.now.Add(-age - time.Minute), Type: jobs.EventType("changed"), Reason: "generation 2"},
	}
	s.jobs = append(s.jobs, d)
}

// List implements console.Jobs.
func (s *scheduler) List(_ context.Context, f jobs.Filter) (jobs.Page, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var page jobs.Page
	for _, d := range s.jobs {
		if matches(d, f) && (len(f.States) == 0 || slices.Contains(f.States, d.State)) {
			page.Jobs = append(page.Jobs, d.Listed)
		}
	}
	return page, nil
}

func matches(d *jobs.Description, f jobs.Filter) bool {
	return strings.Contains(d.Document.Name, f.Name) && (f.Namespace == "" || f.Namespace == d.Document.Namespace) && (f.Kind == "" || f.Kind == d.Document.Kind)
}

// Totals implements console.Jobs.
func (s *scheduler) Totals(_ context.Context, f jobs.Filter) (map[jobs.State]int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	totals := make(map[jobs.State]int)
	for _, d := range s.jobs {
		if matches(d, f) {
			totals[d.State]++
		}
	}
	return totals, nil
}

// Describe implements console.Jobs.
func (s *scheduler) Describe(_ context.Context, id string) (*jobs.Description, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.jobs {
		if d.Document.ID() == id {
			copied := *d
			return &copied, nil
		}
	}
	return nil, jobs.ErrNoJob
}

// Logs implements console.Jobs.
func (s *scheduler) Logs(ctx context.Context, id string, _ int64) ([]jobs.LogLine, error) {
	d, err := s.Describe(ctx, id)
	if err != nil || d.LastError == nil {
		return nil, err
	}
	return []jobs.LogLine{{
		Number: 1, Time: d.LastError.Time, Level: "WARN", Run: d.Epoch, Node: "alder", Message: "database is unavailable, retrying",
		Attrs: map[string]string{"error": d.LastError.Message, "delay": "48s"},
	}}, nil
}

// Nodes implements console.Jobs.
func (s *scheduler) Nodes(context.Context) ([]jobs.NodeStatus, error) {
	return []jobs.NodeStatus{
		{Node: jobs.Node{Incarnation: "alder-1", Name: "alder", Slots: 50, Version: "v1.2.0", Labels: []string{"ssd"}}, Started: s.now.Add(-76 * time.Hour), Age: 2 * time.Second, Up: 76 * time.Hour, Alive: true, Running: 2},
		{Node: jobs.Node{Incarnation: "birch-4", Name: "birch", Slots: 50, Version: "v1.2.0"}, Started: s.now.Add(-9 * time.Hour), Age: 41 * time.Second, Up: 9 * time.Hour},
	}, nil
}

// Origins implements console.Jobs.
func (s *scheduler) Origins(context.Context) ([]jobs.OriginStatus, error) {
	return []jobs.OriginStatus{
		{Origin: "https://feeds.example", Jobs: 7, Running: 1},
		{Origin: "postgres://localhost", Down: true, Until: s.now.Add(48 * time.Second), Wait: 48 * time.Second, Failures: 7, Reason: "connection refused", Jobs: 2, Crashing: 1},
	}, nil
}

// Tenants implements console.Jobs.
func (s *scheduler) Tenants(context.Context) ([]jobs.TenantStatus, error) {
	return []jobs.TenantStatus{
		{Namespace: "checks", Shares: 1, MaxRunning: 2, Usage: 12.5, Jobs: 2, Waiting: 1},
		{Namespace: "partners", Shares: 10, Jobs: 1},
		{Namespace: "shop", Shares: 100, Usage: 10_512.25, Jobs: 6, Running: 2},
	}, nil
}

func (s *scheduler) act(verb string, state jobs.State, ids []string) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		s.acted = append(s.acted, verb+" "+id)
		for _, d := range s.jobs {
			if d.Document.ID() == id {
				d.State, d.Job.State, d.Document.Paused, d.Since = state, state, state == jobs.Paused, s.now
			}
		}
	}
	return len(ids), nil
}

// Pause implements console.Jobs.
func (s *scheduler) Pause(_ context.Context, ids ...string) (int, error) {
	return s.act("pause", jobs.Paused, ids)
}

// Resume implements console.Jobs.
func (s *scheduler) Resume(_ context.Context, ids ...string) (int, error) {
	return s.act("resume", jobs.Pending, ids)
}

// Restart implements console.Jobs.
func (s *scheduler) Restart(_ context.Context, ids ...string) (int, error) {
	return s.act("restart", jobs.Pending, ids)
}
