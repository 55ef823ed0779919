package kinto

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/feed"
)

func TestOneShot(t *testing.T) {
	r := newRig(t)
	if report := r.run(); !report.NoChanges {
		t.Errorf("an empty collection: %+v", report)
	}
	r.fill(0, 120)
	r.put("gone", "")
	r.delete("gone")
	report := r.run()
	if report.Published != 120 || report.Dropped != 1 || report.LastPoll.IsZero() || report.LastPublish.IsZero() {
		t.Errorf("report is %+v", report)
	}
	r.check()
	since, err := ParsePosition(json.RawMessage(report.Since))
	newest, err2 := ParsePosition(json.RawMessage(report.Newest))
	if errors.Join(err, err2) != nil || since.Since == 0 || since.Since != newest.Since || since.Stamp != newest.Since {
		t.Errorf("the position is %s, the newest %s", report.Since, report.Newest)
	}
	if report := r.run(); !report.NoChanges || report.Requests > 2 {
		t.Errorf("a run without changes: %+v", report)
	}
	r.put("r7", `"n":"new"`)
	r.delete("r8")
	r.put("r9", `"deleted":true`) // looks like a tombstone
	r.put("new", `"deleted":true,"more":1`)
	if report := r.run(); report.Published != 4 {
		t.Errorf("report is %+v", report)
	}
	r.check()
	for _, e := range r.events() {
		if e.Op == feed.Delete && (e.ID != "r8" || e.Body != "" || strings.Contains(e.ContentID, ";")) {
			t.Errorf("%+v", e)
		}
	}
}
