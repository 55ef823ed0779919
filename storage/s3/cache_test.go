package s3

import (
	"fmt"
	"testing"
)

// TestTips: what was used lately is kept, up to the limit, and is given away to
// one that names its version.
func TestTips(t *testing.T) {
	bodies := newBodyCache(1000)
	for i := range 20 {
		bodies.put(newCachedBody(fmt.Sprint(i), "v", make([]byte, 100)))
		if bodies.bytes > 1000 || len(bodies.byKey) > 10 || bodies.recent.Len() != len(bodies.byKey) {
			t.Fatalf("%d bytes in %d bodies are kept", bodies.bytes, len(bodies.byKey))
		}
	}
	if bodies.has("9") || !bodies.has("10") {
		t.Error("not the latest are kept")
	}
	if bodies.take("10", "other") != nil || bodies.take("10", "v") == nil || bodies.take("10", "v") != nil {
		t.Error("want a body once, and only at its version")
	}
	bodies.put(newCachedBody("19", "w", make([]byte, 2000)))
	if bodies.has("19") {
		t.Error("the state before is kept, or one that is too large")
	}
	bodies.drop("18")
	if bodies.has("18") || bodies.bytes != 700 {
		t.Errorf("%d bytes are kept, want 700", bodies.bytes)
	}
}
