package kinto

import "testing"

// TestLooksDeleted: records that look like tombstones are published, also those that the feed does not
// have.
func TestLooksDeleted(t *testing.T) {
	r := newRig(t)
	r.fill(0, 3)
	r.delete("r1")
	r.put("new", `"deleted":true`)
	r.run()
	r.check()
	r.put("r0", `"deleted":true`)
	r.put("r1", `"deleted":true`)
	r.put("newer", `"deleted":true`)
	r.run()
	r.check()
	r.delete("r0")
	r.put("r0", `"deleted":true`)
	r.delete("r2") // as many go as come
	r.put("newest", `"deleted":true`)
	r.run()
	r.check()
	r.delete("new")
	r.run()
	r.check()
	if got := len(r.listed()); got != 4 {
		t.Errorf("the collection has %d records", got)
	}
}
