package readiness

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// maxWatched is how many names a [Watch] holds; others are left out.
const maxWatched = 100

// A Watch records whether the things that a process keeps using work: servers, stores, a sink.
// The zero Watch is empty. A Watch is safe for concurrent use.
type Watch struct {
	mu  sync.Mutex
	all map[string]Status
}

// Note records that something was used, successfully if err is nil.
func (w *Watch) Note(name string, err error) {
	s := Of(name, err, Failed)
	w.mu.Lock()
	defer w.mu.Unlock()
	before, known := w.all[name]
	if !known && len(w.all) == maxWatched {
		return
	}
	if s.Since = before.Since; !known || before.State != s.State {
		s.Since = time.Now()
	}
	if w.all == nil {
		w.all = map[string]Status{}
	}
	w.all[name] = s
}

// Check returns the status of each thing, sorted by name; the method is a [Check]. Things that were never used are left
// out.
func (w *Watch) Check(context.Context) []Status {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []Status
	for _, name := range slices.Sorted(maps.Keys(w.all)) {
		all = append(all, w.all[name])
	}
	return all
}
