package couchdb

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/storage/memory"
)

func (r *rig) fill(from, to int) {
	r.t.Helper()
	for n := from; n < to; n++ {
		r.put(fmt.Sprintf("doc/%d ü", n), fmt.Sprintf(`{"n":%d.10,"big":123456789012345678901234567890,"z":0,"a":"é\u0001"}`, n))
	}
}

func TestOneShot(t *testing.T) {
	r := newRig(t)
	report := r.run()
	if !report.NoChanges {
		t.Errorf("an empty database: %+v", report)
	}
	r.fill(0, 120)
	rev := r.put("gone", `{}`)
	r.do(http.MethodDelete, "/gone?rev="+rev, "")
	rev = r.put("why", `{"a":1}`)
	r.put("why", fmt.Sprintf(`{"_rev":%q,"_deleted":true,"because":"I say so"}`, rev))
	r.put("_design/app", `{"views":{}}`)
	report = r.run()
	if report.LastPoll.IsZero() || report.LastPublish.IsZero() {
		t.Errorf("the times of the last poll and publication are missing: %+v", report.Progress)
	}
	if report.Published != 122 || report.NoChanges || report.Rewinds != 0 {
		t.Errorf("report is %+v", report)
	}
	r.check("_design/app")
	for _, e := range r.events() {
		switch e.ID {
		case "gone":
			if e.Op != "DELETE" || e.Body != "" {
				t.Errorf("%+v", e)
			}
		case "why":
			if e.Op != "DELETE" || !strings.Contains(e.Body, `"because":"I say so"`) {
				t.Errorf("%+v", e)
			}
		case "_design/app":
			t.Errorf("%+v", e)
		}
	}
	// Nothing is new: nothing is written, and there are few requests.
	before := r.pairs()
	r.fake.Requests()
	if report := r.run(); !report.NoChanges {
		t.Errorf("report is %+v", report)
	}
	if requests := r.fake.Requests(); len(requests) > 3 {
		t.Errorf("a run without new rows makes the requests %q", requests)
	}
	if diff := cmp.Diff(before, r.pairs()); diff != "" {
		t.Error(diff)
	}
	// New documents.
	r.fill(200, 203)
	if report := r.run(); report.Published != 3 {
		t.Errorf("report is %+v", report)
	}
	r.check("_design/app")
}

// TestRewinds: CouchDB may start over at any position, and nothing is published twice.
func TestRewinds(t *testing.T) {
	r := newRig(t)
	r.fill(0, 80)
	r.run()
	before := r.pairs()
	r.fake.Rewind(r.url, "0")
	report := r.run()
	if report.Published != 0 || report.Repeated != 80 || report.Rewinds != 1 {
		t.Errorf("report is %+v", report)
	}
	if diff := cmp.Diff(before, r.pairs()); diff != "" {
		t.Error(diff)
	}
	r.check()
}

// TestIndexOfDeletedFeed: the feed was deleted and filled again on another host, from the same
// database. It resembles the old one, but has fewer entities.
func TestIndexOfDeletedFeed(t *testing.T) {
	for _, pruned := range []bool{false, true} {
		r := newRig(t)
		r.fill(0, 59)
		r.run()
		elsewhere := &rig{t: t, fake: r.fake, url: r.url, store: memory.New(), dir: t.TempDir(), configure: func(*Config) {}}
		elsewhere.configure = func(c *Config) {
			for n := 5; n < 60; n++ {
				c.Filter.DocIDs = append(c.Filter.DocIDs, fmt.Sprintf("doc/%d ü", n))
			}
		}
		elsewhere.run()
		r.fill(59, 60) // makes the same document the last one of both feeds, on the second page: the source has no order
		r.run()
		elsewhere.run()
		if pruned {
			if _, err := chain.RaiseFloor(t.Context(), elsewhere.store, testFeed, 2); err != nil {
				t.Fatal(err)
			}
		}
		last := func(r *rig) string { // describes the end of the newest page
			newest, err := chain.NewReader(r.store, testFeed).Newest(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return fmt.Sprint(newest.Number, newest.LastContentID)
		}
		if a, b := last(r), last(elsewhere); a != b {
			t.Errorf("the feeds end with %s and %s", a, b)
		}
		r.store = elsewhere.store
		if report := r.run(); report.Published != map[bool]int64{false: 5, true: 55}[pruned] {
			t.Errorf("pruned %v: %+v", pruned, report)
		}
		if !pruned {
			r.check()
		}
	}
}
