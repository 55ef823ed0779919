package s3

import (
	"fmt"
	"testing"
)

// TestBodyCache: the cache keeps the most recently used bodies up to the limit, and returns a body
// only for its version.
func TestBodyCache(t *testing.T) {
	bodies := newBodyCache(1000)
	for i := range 20 {
		bodies.put(newCachedBody(fmt.Sprint(i), "v", make([]byte, 100)))
		if bodies.bytes > 1000 || len(bodies.byKey) > 10 || bodies.recent.Len() != len(bodies.byKey) {
			t.Fatalf("cache has %d bytes in %d bodies", bodies.bytes, len(bodies.byKey))
		}
	}
	if bodies.has("9") || !bodies.has("10") {
		t.Error("cache does not hold the most recent bodies")
	}
	if bodies.take("10", "other") != nil || bodies.take("10", "v") == nil || bodies.take("10", "v") != nil {
		t.Error("take did not return the body exactly once, at its version only")
	}
	bodies.put(newCachedBody("19", "w", make([]byte, 2000)))
	if bodies.has("19") {
		t.Error("cache holds the previous body, or one that is too large")
	}
	bodies.drop("18")
	if bodies.has("18") || bodies.bytes != 700 {
		t.Errorf("cache has %d bytes, want 700", bodies.bytes)
	}
}
