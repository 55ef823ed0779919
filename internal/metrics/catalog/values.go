package catalog

import "sync"

// Values holds the values that a label may have, up to a maximum, so that a metric has a bounded
// number of series. It is safe for concurrent use.
type Values struct {
	most  int
	mu    sync.Mutex
	known map[string]bool
}

// NewValues returns an empty set that can hold the given number of values.
func NewValues(most int) *Values { return &Values{most: most, known: map[string]bool{}} }

// Add adds a value if there is room, and reports whether the label may have it.
func (v *Values) Add(value string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.known[value] && len(v.known) == v.most {
		return false
	}
	v.known[value] = true
	return true
}

// Label adds a value and returns it, or returns "other" if the value is empty or there is no room for it.
func (v *Values) Label(value string) string {
	if value == "" || !v.Add(value) {
		return "other"
	}
	return value
}

// Keep forgets all values but the given ones, and returns the forgotten ones.
func (v *Values) Keep(some map[string]bool) (gone []string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for value := range v.known {
		if !some[value] {
			gone = append(gone, value)
			delete(v.known, value)
		}
	}
	return gone
}
