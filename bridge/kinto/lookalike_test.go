package kinto

import (
	"net/http"
	"testing"
	"time"

	"github.com/feedctl/feedctl/internal/kintotest"
)

// TestLooksDeleted: records that look like tombstones are published, including those that the feed does not
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
	r.delete("r2") // so that the number of records remains the same
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

// TestManyTombstones: the first fill of a collection with many tombstones requests none of them. One list shows
// which of them are records that only look like tombstones, even if the first run fails.
func TestManyTombstones(t *testing.T) {
	fake := kintotest.NewFake(t)
	r := newRigOf(t, fake.NewCollection(t))
	r.put("look", `"deleted":true`)
	fake.Fill(r.url, 3000, func(int) string { return `{}` })
	kintotest.Send(t, http.MethodDelete, r.url+"/records", "")
	r.put("look", `"deleted":true`)
	r.put("more", `"deleted":true,"more":1`)
	r.fill(3000, 3005)
	r.configure = func(c *Config) { c.Attempts, c.Window, c.Reconcile = 1, time.Millisecond, Never }
	requests, byID, fails := 0, 0, true
	r.client.HTTP = &http.Client{Transport: roundTrip(func(q *http.Request) (*http.Response, error) {
		requests++
		query := q.URL.Query()
		if query.Has("in_id") {
			byID++
		}
		if query.Has("deleted") && fails {
			return answer(q, http.StatusServiceUnavailable, http.Header{}, "later"), nil
		}
		return http.DefaultTransport.RoundTrip(q)
	})}
	if _, err := r.tryRun(r.store); err == nil {
		t.Error("the first run does not fail")
	}
	if byID > 0 {
		t.Errorf("%d requests by id", byID)
	}
	requests, byID, fails = 0, 0, false
	r.run()
	r.check()
	if byID > 1 || requests > 10 {
		t.Errorf("%d requests, %d of them by id", requests, byID)
	}
}
