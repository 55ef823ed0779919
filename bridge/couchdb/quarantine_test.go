package couchdb

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/bridge"
	"github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/internal/couchtest"
)

// TestQuarantine: documents that cannot be published do not stop the others.
func TestQuarantine(t *testing.T) {
	for name, options := range modes {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.options = options
			r.configure = func(c *Config) { c.MaxDocument = 5000 }
			r.fill(0, 5)
			r.put("a/b", `{}`) // an id that only needs escaping
			r.put("../ \"%2F?#", `{}`)
			r.fake.AddDoc(r.url, "", `{"v":1}`)
			r.fake.AddDoc(r.url, "not \xff utf-8", `{"v":1}`)
			r.put(strings.Repeat("ü", 6000), `{"v":"an id that is too long for a header"}`)
			r.put("large", fmt.Sprintf(`{"t":%q}`, strings.Repeat("x", 6000)))
			r.fake.AddRow(r.url, `{"seq":SEQ,"id":"broken","changes":[{"rev":`)
			r.fill(5, 10)
			report := r.run()
			if report.Published != 12 || report.Quarantined != 5 {
				t.Errorf("report is %+v", report)
			}
			r.verify()
			pairs := strings.Join(r.pairs(), "\n")
			for _, id := range []string{"a/b@", "../ \"%2F?#@", "doc/9 ü@"} {
				if !strings.Contains(pairs, id) {
					t.Errorf("%s is not in the feed", id)
				}
			}
			n := 0
			for thing, err := range bridge.List(t.Context(), r.store, testFeed) {
				if err != nil || thing.Reason == "" || thing.Since.IsZero() || thing.Name == "" {
					t.Errorf("%+v, %v", thing, err)
				}
				n++
			}
			if n != 5 {
				t.Errorf("%d documents are in quarantine", n)
			}
			// A document that is found again keeps its entry.
			r.fake.Rewind(r.url, "0")
			if report := r.run(); report.Published != 0 || report.Quarantined != 0 {
				t.Errorf("after a rewind: %+v", report)
			}
		})
	}
}

func TestRetry(t *testing.T) {
	r := newRig(t)
	r.options = Options{Revs: true, Attachments: Inline}
	r.configure = func(c *Config) { c.MaxDocument = 5000 }
	large := func(mark string) string { return fmt.Sprintf(`{"t":%q,"mark":%q}`, strings.Repeat("x", 6000), mark) }
	r.put("still", large("1"))
	rev := r.put("replaced", large("2"))
	r.put("purged", large("3"))
	r.fake.AddRow(r.url, `{"seq":SEQ,"id":"","changes":[{"rev":"1-a"}]}`)
	r.put("good", `{}`)
	if report := r.run(); report.Published != 1 || report.Quarantined != 4 {
		t.Fatalf("report is %+v", report)
	}
	r.put("replaced", fmt.Sprintf(`{"_rev":%q,"now":"small"}`, rev))
	r.run()
	r.fake.Purge(r.url, "purged")
	before := r.pairs()

	retry := func(want bridge.RetryReport) {
		t.Helper()
		b := r.open(r.store)
		defer b.Close()
		got, err := b.Retry(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("retry (-want +got):\n%s", diff)
		}
	}
	r.options = Options{} // the entries have their own
	retry(bridge.RetryReport{Removed: 2, Left: 2})
	if diff := cmp.Diff(before, r.pairs()); diff != "" {
		t.Error(diff)
	}
	r.configure = func(*Config) {}
	retry(bridge.RetryReport{Published: 1, Removed: 1, Left: 1})
	events := r.events()
	if e := events[len(events)-1]; e.ID != "still" || !strings.Contains(e.Body, `"_revisions"`) {
		t.Errorf("%+v", e)
	}
	r.options = Options{Revs: true, Attachments: Inline}
	r.fake.Requests()
	if report := r.run(); report.Published != 0 || report.Rows != 0 {
		t.Errorf("the position in the source has moved: %+v", report)
	}
	r.check("")
}

// TestRetryFiltered: a retried document is published as the run that found it would have published it,
// and not at all if that run's filter no longer selects it.
func TestRetryFiltered(t *testing.T) {
	ofType := func(doc []byte, q url.Values) bool {
		return strings.Contains(string(doc), `"type":"`+q.Get("type")+`"`)
	}
	query := url.Values{"type": {"x"}}
	for name, test := range map[string]struct {
		filter Filter
		want   []string
	}{
		"none":     {Filter{}, []string{"_design/app", "changed", "same"}},
		"selector": {Filter{Selector: json.RawMessage(`{"type":"x"}`)}, []string{"_design/app", "same"}},
		"filter":   {Filter{Name: "app/type", Query: query}, []string{"_design/app", "same"}},
		"view":     {Filter{View: "app/type", Query: query}, []string{"_design/app", "same"}},
		"ids":      {Filter{DocIDs: []string{"same", "changed"}}, []string{"changed", "same"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.fake.Filters = map[string]func([]byte, url.Values) bool{"app/type": ofType}
			x := fmt.Sprintf(`"type":"x","t":%q}`, strings.Repeat("x", 6000))
			r.put("same", "{"+x)
			rev := r.put("changed", "{"+x)
			r.put("_design/app", "{"+x)
			if name != "none" {
				r.put("never", `{"type":"y"}`)
			}
			r.options = Options{DesignDocs: true, Revs: true}
			r.configure = func(c *Config) { c.MaxDocument, c.Filter = 5, test.filter }
			if report := r.run(); report.Published != 0 {
				t.Errorf("report is %+v", report)
			}
			r.put("changed", fmt.Sprintf(`{"_rev":%q,"type":"y"}`, rev))
			r.options, r.configure = Options{}, func(*Config) {} // each entry has its own
			b := r.open(r.store)
			defer b.Close()
			report, err := b.Retry(t.Context())
			if err != nil || report.Left != 0 || b.config.DesignDocs {
				t.Errorf("%+v, %v", report, err)
			}
			var got []string
			for _, e := range r.events() {
				if got = append(got, e.ID); !strings.Contains(e.Body, `"_revisions"`) {
					t.Errorf("%s has no ancestors: %.80s", e.ID, e.Body)
				}
			}
			slices.Sort(got)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			if q := r.quarantined(); len(q) != 0 {
				t.Errorf("quarantine has %v", q)
			}
		})
	}
}

// TestRetryBesideBridge: a running bridge notices a retry, and neither publishes what the other has
// published.
func TestRetryBesideBridge(t *testing.T) {
	r := newRig(t)
	r.configure = func(c *Config) { c.MaxDocument = 5000 }
	r.put("large", fmt.Sprintf(`{"t":%q}`, strings.Repeat("x", 6000)))
	r.put("small", `{}`)
	r.run()
	r.configure = func(*Config) {}
	r.fill(0, 10)
	// The retry happens during the run, between the row and the document.
	r.options = Options{Revs: true}
	r.between(func() {
		other := &rig{t: t, fake: r.fake, url: r.url, store: r.store, dir: t.TempDir(), configure: r.configure}
		b := other.open(r.store)
		defer b.Close()
		if report, err := b.Retry(t.Context()); err != nil || report.Published != 1 {
			t.Errorf("%+v, %v", report, err)
		}
	})
	if report := r.run(); report.Published != 10 {
		t.Errorf("report is %+v", report)
	}
	r.options = Options{}
	if n := len(r.pairs()); n != 12 {
		t.Errorf("feed has %q", r.pairs())
	}
	r.verify()
	if q := r.quarantined(); len(q) != 0 {
		t.Errorf("quarantine has %v", q)
	}
}

// TestNoneAttachments: the documents equal those of the source, except that the member _attachments is
// missing.
func TestNoneAttachments(t *testing.T) {
	r := newRig(t)
	r.options = Options{Attachments: None}
	r.put("a", `{"x":1.50,"_attachments":{"a":{"content_type":"text/plain","data":"aGVsbG8="}},"y":[2e0]}`)
	r.put("b", fmt.Sprintf(`{"_attachments":{"a":{"content_type":"text/plain","data":"aGVsbG8="}},"y":%q}`, strings.Repeat("z", 4000)))
	r.put("c", `{"z":1}`)
	r.run()
	for _, e := range r.events() {
		var stub struct {
			Attachments json.RawMessage `json:"_attachments"`
		}
		whole := r.do(http.MethodGet, "/"+couchdb.EscapeID(e.ID), "")
		if err := json.Unmarshal([]byte(whole), &stub); err != nil {
			t.Fatal(err)
		}
		want := strings.Replace(trimLine(whole), `,"_attachments":`+string(stub.Attachments), "", 1)
		if e.Body != want || strings.Contains(e.Body, "_attachments") {
			t.Errorf("%s is\n%s, want\n%s", e.ID, e.Body, want)
		}
	}
}

// TestForbiddenDocument: a document that the source refuses is quarantined.
func TestForbiddenDocument(t *testing.T) {
	r := newRig(t)
	r.options = Options{Revs: true}
	rev := r.put("secret", `{}`)
	r.fake.Inject(1, couchtest.On(http.MethodPost, "/_bulk_get"), func(w http.ResponseWriter, _ *http.Request, _ http.HandlerFunc) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"results":[{"id":"secret","docs":[{"error":{"id":"secret","rev":%q,"error":"forbidden","reason":"not for you"}}]}]}`, rev)
	})
	if report := r.run(); report.Published != 0 || report.Quarantined != 1 {
		t.Errorf("report is %+v", report)
	}
	if reason := r.quarantined()["secret"]; !strings.Contains(reason, "not for you") {
		t.Errorf("reason is %q", reason)
	}
}
