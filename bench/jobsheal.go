package main

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/feedctl/feedctl/internal/couchtest"
	"github.com/feedctl/feedctl/jobs"
)

const (
	healJobs    = 300 // on each of three nodes
	healServers = 10  // so that at most 100 jobs use each
	spareSlots  = 5
)

// jobsHeal kills one of three nodes. A job runs elsewhere when it sends its first request to its
// database.
func (b *bench) jobsHeal() error {
	return b.withJobs("heal", true, func(j *jobsBench) error {
		h := &healing{jobsBench: j, each: j.some(healJobs), asked: map[string]time.Time{}}
		feeds, err := j.pages(1)
		if err != nil {
			return err
		}
		for n := range healServers {
			host := fmt.Sprintf("127.0.0.%d:0", n+1)
			source, err := listen(host, alias(feeds, func(*http.Request, string) {}))
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
	since time.Time            // zero: requests are not noted
	asked map[string]time.Time // when each database was first requested
}

// noting notes the first request for each database.
func (h *healing) noting(couch *couchtest.Fake) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		db, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		h.mu.Lock()
		if _, ok := h.asked[db]; !ok && !h.since.IsZero() {
			h.asked[db] = time.Now()
		}
		h.mu.Unlock()
		couch.Requests() // else it keeps all
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
	// The first node has slots for its jobs, and some that are free, so that jobs which have
	// caught up keep theirs. The others have room for its jobs, too.
	for n, slots := range []int{h.each + spareSlots, 2*h.each + spareSlots, 2*h.each + spareSlots} {
		node, err := h.nodeNamed(fmt.Sprint("node-", n), "--max-jobs", fmt.Sprint(slots))
		if err != nil {
			return err
		}
		nodes = append(nodes, node)
		if n > 0 {
			continue
		}
		if _, err := h.apply(documents[:h.each]); err != nil {
			return err
		}
		if err := h.await("the first node's jobs run", time.Minute, func(in map[jobs.State]int) bool { return in[jobs.Running] == h.each }); err != nil {
			return err
		}
	}
	if _, err := h.apply(documents); err != nil {
		return err
	}
	if err := h.await("all jobs run", time.Minute, func(in map[jobs.State]int) bool { return in[jobs.Running]*20 >= 3*h.each*19 }); err != nil {
		return err
	}
	if err := h.sleep(settleTime); err != nil { // the last of them begin to wait for changes
		return err
	}
	lost, err := h.ownedBy("node-0")
	if err != nil {
		return err
	}
	killed := nodes[0]
	nodes = nodes[1:]
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

// ownedBy returns the names of the jobs that a node runs, which are those of their databases.
func (h *healing) ownedBy(node string) (names []string, err error) {
	filter := jobs.Filter{States: []jobs.State{jobs.Running}, Limit: jobs.MaxLimit}
	for {
		page, err := h.scheduler.List(h.ctx, filter)
		if err != nil {
			return nil, err
		}
		for n := range page.Jobs {
			if page.Jobs[n].Node == node {
				names = append(names, strings.TrimPrefix(page.Jobs[n].Document.ID(), "default/"))
			}
		}
		if filter.After = page.Next; page.Next == "" {
			break
		}
	}
	if len(names) < h.each*3/4 {
		return nil, fmt.Errorf("the node to be killed runs %d jobs, want %d", len(names), h.each)
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
