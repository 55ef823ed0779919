package main

import (
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	_ "modernc.org/sqlite"

	"github.com/feedctl/feedctl/jobs"
	"github.com/feedctl/feedctl/producer"
	feedserver "github.com/feedctl/feedctl/server"
	"github.com/feedctl/feedctl/storage/file"
)

// jobsOrigins measures jobs whose servers are slow, down or limited. Most of the time is spent
// waiting, so the parts run at the same time, each with its own node and database.
func (b *bench) jobsOrigins() error {
	parts := []func(*jobsBench) (report func(), err error){(*jobsBench).shares, (*jobsBench).outage, (*jobsBench).limits}
	reports := make([]func(), len(parts))
	g, ctx := errgroup.WithContext(b.ctx)
	for n, measure := range parts {
		g.Go(func() error {
			part := *b
			part.ctx = ctx
			return part.withJobs(fmt.Sprint("origins-", n), false, func(j *jobsBench) (err error) {
				reports[n], err = measure(j)
				return err
			})
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for _, report := range reports {
		report()
	}
	return nil
}

// pages makes a feed with one entity in each page, and returns a handler that serves it.
func (j *jobsBench) pages(many int) (http.Handler, error) {
	store, err := file.New(filepath.Join(j.dir, "feeds"))
	if err != nil {
		return nil, err
	}
	f, err := producer.Open(j.ctx, store, "bench", producer.Config{MaxPageEntities: 1})
	if err != nil {
		return nil, err
	}
	for n := range many {
		if _, err := f.Publish(j.ctx, newEntity(n)); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	return feedserver.New(store, feedserver.Config{})
}

// alias serves the feed "bench" under any name.
func alias(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if feed, ok := strings.CutPrefix(r.URL.Path, "/feeds/"); ok && !strings.Contains(feed, "/") && feed != "bench" {
			r.URL.Path = "/feeds/bench"
		}
		h.ServeHTTP(w, r)
	})
}

// listen serves at an address until the server is closed.
func listen(address string, h http.Handler) (*httptest.Server, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	s := httptest.NewUnstartedServer(h)
	if err := s.Listener.Close(); err != nil {
		return nil, err
	}
	s.Listener = l
	s.Start()
	return s, nil
}

func shut(s *httptest.Server) {
	s.CloseClientConnections()
	s.Close()
}

const (
	shareSlots = 16
	shareRun   = 2 * time.Second // how long a run takes, at least
	shareTime  = time.Minute
)

// shares measures how slots are shared by a namespace with many jobs that are due, and two with few
// jobs that are always due.
func (j *jobsBench) shares() (report func(), err error) {
	h, err := j.pages(1)
	if err != nil {
		return nil, err
	}
	h = alias(h)
	s, err := listen("127.0.0.1:0", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/feeds/") {
			select {
			case <-time.After(shareRun):
			case <-r.Context().Done():
			}
		}
		h.ServeHTTP(w, r)
	}))
	if err != nil {
		return nil, err
	}
	defer shut(s)
	node, err := j.node("--max-jobs", fmt.Sprint(shareSlots))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, node.terminate()) }()
	var documents []document
	var always []string
	for _, tenant := range []struct {
		name string
		jobs int
	}{{"a", 5000}, {"b", 10}, {"c", 10}} {
		for n := range max(j.some(tenant.jobs), 10) {
			d := document{tenant.name, fmt.Sprint("job-", n), s.URL + "/feeds/" + tenant.name + "-" + fmt.Sprint(n), "jsonl:" + filepath.Join(j.dir, tenant.name+fmt.Sprint(n)), "node", true}
			documents = append(documents, d)
			if tenant.name != "a" || j.part > 1 {
				always = append(always, d.namespace+"/"+d.name)
			}
		}
	}
	if _, err := j.apply(documents); err != nil {
		return nil, err
	}
	if err := j.scheduler.SetShares(j.ctx, "c", 200); err != nil {
		return nil, err
	}
	used, all := map[string]float64{}, 0.0
	for start := time.Now(); time.Since(start) < shareTime; {
		if err := j.scheduler.Wake(j.ctx, always...); err != nil {
			return nil, err
		}
		for range 5 {
			page, err := j.scheduler.List(j.ctx, jobs.Filter{States: []jobs.State{jobs.Running}})
			if err != nil {
				return nil, err
			}
			if time.Since(start) > shareTime/6 { // it has settled
				for n := range page.Jobs {
					used[page.Jobs[n].Document.Namespace]++
					all++
				}
			}
			if err := j.sleep(100 * time.Millisecond); err != nil {
				return nil, err
			}
		}
	}
	return func() {
		for _, name := range []string{"a", "b", "c"} {
			fair := map[string]float64{"a": 25, "b": 25, "c": 50}[name]
			j.report.add("slot time of tenant "+name, "%", 100*used[name]/all, fair, "its share", withinTenth())
		}
	}, nil
}

const outageJobs = 1000

// outage measures how jobs resume when their server comes back after a long time. It does not wait
// for that time: the last probe has just failed, and the next one is made as late as it can be.
func (j *jobsBench) outage() (report func(), err error) {
	h, err := j.pages(1)
	if err != nil {
		return nil, err
	}
	h = alias(h)
	s, err := listen("127.0.0.1:0", h)
	if err != nil {
		return nil, err
	}
	defer func() { shut(s) }()
	node, err := j.node()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, node.terminate()) }()
	many := j.some(outageJobs)
	documents, ids := make([]document, many), make([]string, many)
	for n := range documents {
		documents[n] = document{"default", feedName(n), s.URL + "/feeds/" + feedName(n), "jsonl:" + filepath.Join(j.dir, feedName(n)), "node", true}
		ids[n] = "default/" + feedName(n)
	}
	if _, err := j.apply(documents); err != nil {
		return nil, err
	}
	err = j.await("all jobs have run at first", 2*time.Minute, func(in map[jobs.State]int) bool { return in[jobs.Idle]+in[jobs.Running] == many })
	if err != nil {
		return nil, err
	}
	shut(s)
	if err := j.scheduler.Wake(j.ctx, ids...); err != nil {
		return nil, err
	}
	err = j.await("the server is known to be down", 3*time.Minute, func(in map[jobs.State]int) bool { return in[jobs.Running] == 0 })
	if err != nil {
		return nil, err
	}
	if err := j.lateProbe(); err != nil {
		return nil, err
	}
	back := time.Now()
	if s, err = listen(s.Listener.Addr().String(), h); err != nil {
		return nil, err
	}
	for again := 0; again < many; {
		if time.Since(back) > 5*time.Minute {
			return nil, fmt.Errorf("%d of %d jobs have run 5 minutes after the server was back", again, many)
		}
		if err := j.sleep(250 * time.Millisecond); err != nil {
			return nil, err
		}
		again = 0
		err := j.eachJob(jobs.Filter{States: []jobs.State{jobs.Idle, jobs.Running}}, func(job *jobs.Listed) {
			if job.Started.After(back) {
				again++
			}
		})
		if err != nil {
			return nil, err
		}
	}
	took := time.Since(back)
	return func() {
		j.report.add(fmt.Sprintf("server of %d jobs back after 30 min, all have run", many), "s", took.Seconds(), 90, "limit", atMost(90))
	}, nil
}

// lateProbe makes the next probe of the server as late as it can be.
func (j *jobsBench) lateProbe() (err error) {
	db, err := sql.Open("sqlite", strings.TrimPrefix(j.db, "sqlite:")+"?_pragma=busy_timeout(5000)")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	const minute = "60000000" // microseconds
	changed, err := db.ExecContext(j.ctx, "UPDATE origin SET probe = "+minute+", blocked = CAST(unixepoch('subsec') * 1000000 AS INTEGER) + "+minute+" WHERE open")
	if err != nil {
		return err
	}
	if n, err := changed.RowsAffected(); err != nil || n != 1 {
		return fmt.Errorf("%d origins are down, want one (%w)", n, err)
	}
	return nil
}

// limits measures jobs whose servers allow a limited number of requests a second.
func (j *jobsBench) limits() (report func(), err error) {
	h, err := j.pages(limitPages)
	if err != nil {
		return nil, err
	}
	node, err := j.node("--max-jobs", "1000")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, node.terminate()) }()
	var servers []*limitedServer
	var documents []document
	for _, perSecond := range []int{10, 20, 50, 200, 1000} {
		l := &limitedServer{perSecond: perSecond, handler: h}
		s, err := listen("127.0.0.1:0", l)
		if err != nil {
			return nil, err
		}
		defer shut(s)
		servers = append(servers, l)
		for n := range j.some(limitJobs) {
			name := fmt.Sprintf("limit-%d-%d", perSecond, n)
			documents = append(documents, document{"default", name, s.URL + "/feeds/bench", "jsonl:" + filepath.Join(j.dir, name), "node", false})
		}
	}
	if _, err := j.apply(documents); err != nil {
		return nil, err
	}
	if err := j.sleep(limitTime); err != nil {
		return nil, err
	}
	var reports []func()
	for _, l := range servers {
		reports = append(reports, l.result(j))
	}
	return func() {
		for _, report := range reports {
			report()
		}
	}, nil
}

const (
	limitJobs  = 200
	limitPages = 2000
	limitTime  = 2 * time.Minute
)

// A limitedServer allows a number of requests in each second, counted from the first request.
type limitedServer struct {
	perSecond int
	handler   http.Handler

	mu               sync.Mutex
	began            time.Time
	second           int64
	count            int
	allowed, refused int
}

func (l *limitedServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if l.allow() {
		l.handler.ServeHTTP(w, r)
		return
	}
	w.WriteHeader(http.StatusTooManyRequests)
}

func (l *limitedServer) allow() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if l.began.IsZero() {
		l.began = now
	}
	if second := now.Unix(); second != l.second {
		l.second, l.count = second, 0
	}
	if l.count++; l.count > l.perSecond {
		l.refused++
		return false
	}
	l.allowed++
	return true
}

func (l *limitedServer) result(j *jobsBench) (report func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	rate := float64(l.allowed) / time.Since(l.began).Seconds()
	refused := 100 * float64(l.refused) / float64(l.allowed+l.refused)
	return func() {
		name := fmt.Sprintf("%d jobs, server allows %d requests/s", j.some(limitJobs), l.perSecond)
		j.report.add(name, "requests/s", rate, float64(l.perSecond), "limit", atLeastRatio(.8))
		j.report.add(name+", refused", "%", refused, 5, "limit", atMost(5))
	}
}
