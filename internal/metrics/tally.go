package metrics

import (
	"maps"
	"sync"
)

// A Tally counts requests by their operation.
type Tally struct {
	mu    sync.Mutex
	count map[string]uint64
}

// Add counts a request.
func (t *Tally) Add(operation string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count == nil {
		t.count = make(map[string]uint64)
	}
	t.count[operation]++
}

// Requests implements [storage.Counter].
func (t *Tally) Requests() map[string]uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.count)
}
