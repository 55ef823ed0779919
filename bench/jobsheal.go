package main

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/feedctl/feedctl/internal/couchtest"
	"github.com/feedctl/feedctl/jobs"
)

const (
	healJobs    = 300 // on each of three nodes
	healServers = 20  // so that few enough jobs use each server to keep their slots
	spareSlots  = 5
)

// jobsHeal kills one of three nodes. A job counts as running elsewhere once it has sent its first
// request to its database.
func (b *bench) jobsHeal() error {
	return b.withJobs("heal", true, func(j *jobsBench) error {
		h := &healing{jobsBench: j, each: j.some(healJobs), asked: map[string]time.Time{}}
		feeds, err := j.pages(1)
		if err != nil {
			return err
		}
		for n := range healServers {
			host := fmt.Sprintf("127.0.0.%d:0", n+1)
			source, err := listen(host, alias(feeds))
			if err != nil {
				return err
			}
			defer shut(source)
			target, err := listen(host, h.noting(couchtest.NewHandler()))
			if err != nil {
				return err
			}
			defer shut(target)
			h.sources, h.targets = append(h.sources, source.URL), append(h.targets, target.URL)
		}
		return h.measure()
	})
}

type healing struct {
	*jobsBench
	each             int
	sources, targets []string

	mu    sync.Mutex
	since time.Time            // zero: requests are not recorded
	asked map[string]time.Time // when each database was first requested
}

// noting returns a handler that passes requests on to couch, and records when each database is
// first requested.
func (h *healing) noting(couch *couchtest.Fake) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		db, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		h.mu.Lock()
		if _, ok := h.asked[db]; !ok && !h.since.IsZero() {
			h.asked[db] = time.Now()
		}
		h.mu.Unlock()
		couch.Requests() // otherwise couch keeps all of them
		couch.ServeHTTP(w, r)
	})
}

func (h *healing) measure() (err error) {
	documents := make([]document, 3*h.each)
	for n := range documents {
		db := h.targets[n%healServers] + "/" + feedName(n)
		if err := h.couchRequest(http.MethodPut, db, nil); err != nil {
			return err
		}
		documents[n] = document{namespace: "default", name: feedName(n), source: h.sources[n%healServers] + "/feeds/" + feedName(n), target: "couchdb:" + db, follow: true}
	}
	var nodes []*server
	defer func() {
		for _, node := range nodes {
			err = errors.Join(err, node.terminate())
		}
	}()
	// Each node has slots for its own jobs and those of one other node, and some that are free, so
	// that jobs that have caught up keep their slots.
	for n := range 3 {
		node, err := h.nodeNamed(fmt.Sprint("node-", n), "--max-jobs", fmt.Sprint(2*h.each+spareSlots))
		if err != nil {
			return err
		}
		nodes = append(nodes, node)
	}
	if _, err := h.apply(documents); err != nil {
		return err
	}
	if err := h.allRun(3 * h.each); err != nil {
		return err
	}
	if err := h.sleep(settleTime); err != nil { // the last of them begin to wait for changes
		return err
	}
	// The node that runs the most jobs is killed.
	var lost []string
	most := 0
	for n := range nodes {
		names, err := h.ownedBy(fmt.Sprint("node-", n))
		if err != nil {
			return err
		}
		if len(names) > len(lost) {
			lost, most = names, n
		}
	}
	if len(lost) < h.each*9/10 {
		return fmt.Errorf("no node runs %d jobs", h.each)
	}
	killed := nodes[most]
	nodes = slices.Delete(nodes, most, most+1)
	if err := killed.end(syscall.SIGKILL); err != nil {
		return err
	}
	h.mu.Lock()
	h.since = time.Now()
	h.mu.Unlock()
	took, err := h.elsewhere(lost)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("one of 3 nodes killed, its %d jobs run elsewhere", len(lost))
	h.report.add(name+", median", "s", percentile(took, .5).Seconds(), 30, "limit", noTarget())
	h.report.add(name+", p99", "s", percentile(took, .99).Seconds(), 30, "limit", atMost(30))
	return nil
}

// allRun waits until the given number of jobs run, or nearly that many. A job that has caught up
// while others waited for its server has given up its slot: it is run again.
func (h *healing) allRun(number int) error {
	for range 20 {
		running := 0
		var idle []string
		err := h.eachJob(jobs.Filter{}, func(job *jobs.Listed) {
			switch job.State {
			case jobs.Running:
				running++
			case jobs.Idle:
				idle = append(idle, job.Document.ID())
			}
		})
		if err != nil || running*100 >= number*97 {
			return err
		}
		if err := errors.Join(h.scheduler.Wake(h.ctx, idle...), h.sleep(5*time.Second)); err != nil {
			return err
		}
	}
	return fmt.Errorf("%d jobs do not run within 100 s", number)
}

// ownedBy returns the names of the jobs that a node runs, which are also the names of their
// databases.
func (h *healing) ownedBy(node string) (names []string, err error) {
	err = h.eachJob(jobs.Filter{States: []jobs.State{jobs.Running}}, func(job *jobs.Listed) {
		if job.Node == node {
			names = append(names, strings.TrimPrefix(job.Document.ID(), "default/"))
		}
	})
	if err != nil {
		return nil, err
	}
	return names, nil
}

// elsewhere returns how long after the kill each database was requested again.
func (h *healing) elsewhere(databases []string) (took []time.Duration, err error) {
	for took = nil; len(took) < len(databases); {
		if err := h.sleep(50 * time.Millisecond); err != nil {
			return nil, err
		}
		took = nil
		h.mu.Lock()
		for _, db := range databases {
			if at, ok := h.asked[db]; ok {
				took = append(took, at.Sub(h.since))
			}
		}
		late := time.Since(h.since) > 2*time.Minute
		h.mu.Unlock()
		if late {
			return nil, fmt.Errorf("%d of %d jobs run elsewhere after 2 minutes", len(took), len(databases))
		}
	}
	return took, nil
}
