package s3

import (
	"fmt"
	"testing"
)

// TestTips: what was used lately is kept, up to the limit, and is given away to
// one that names its version.
func TestTips(t *testing.T) {
	tips := newTips(1000)
	for i := range 20 {
		tips.put(newTip(fmt.Sprint(i), "v", make([]byte, 100)))
		if tips.bytes > 1000 || len(tips.byKey) > 10 || tips.recent.Len() != len(tips.byKey) {
			t.Fatalf("%d bytes in %d tips are kept", tips.bytes, len(tips.byKey))
		}
	}
	if tips.has("9") || !tips.has("10") {
		t.Error("not the latest are kept")
	}
	if tips.take("10", "other") != nil || tips.take("10", "v") == nil || tips.take("10", "v") != nil {
		t.Error("a tip is given away other than once, at its version")
	}
	tips.put(newTip("19", "w", make([]byte, 2000)))
	if tips.has("19") {
		t.Error("the state before is kept, or one that is too large")
	}
	tips.drop("18")
	if tips.has("18") || tips.bytes != 700 {
		t.Errorf("%d bytes are kept, want 700", tips.bytes)
	}
}
