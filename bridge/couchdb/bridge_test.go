package couchdb

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
		t.Errorf("the times of the last poll and of the last publication are not known: %+v", report.Progress)
	}
	if report.Published != 122 || report.NoChanges || report.Rewinds != 0 {
		t.Errorf("report is %+v", report)
	}
	r.check("_design/app")
	for _, e := range r.events() {
		switch e.id {
		case "gone":
			if e.op != "DELETE" || e.body != "" {
				t.Errorf("%+v", e)
			}
		case "why":
			if e.op != "DELETE" || !strings.Contains(e.body, `"because":"I say so"`) {
				t.Errorf("%+v", e)
			}
		case "_design/app":
			t.Errorf("%+v", e)
		}
	}
	// Nothing new: nothing is written, and hardly anything asked.
	before := r.pairs()
	r.fake.Requests()
	if report := r.run(); !report.NoChanges {
		t.Errorf("report is %+v", report)
	}
	if requests := r.fake.Requests(); len(requests) > 3 {
		t.Errorf("a run without news makes the requests %q", requests)
	}
	if diff := cmp.Diff(before, r.pairs()); diff != "" {
		t.Error(diff)
	}
	// Some news.
	r.fill(200, 203)
	if report := r.run(); report.Published != 3 {
		t.Errorf("report is %+v", report)
	}
	r.check("_design/app")
}

// TestRewinds: CouchDB begins again at any place, and nothing is published twice.
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
