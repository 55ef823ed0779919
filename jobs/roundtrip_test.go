package jobs_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/internal/jobdb"
	"github.com/feedctl/feedctl/jobs"
)

// parse reads jobs from YAML, as if from a file.
func parse(text string) ([]jobs.Document, error) {
	f, err := fakeKinds.Read(jobs.ReadOptions{Stdin: strings.NewReader(text)}, "-")
	if err != nil {
		return nil, err
	}
	return f.Documents, nil
}

// roundTrip applies documents and exports them in both forms. It expects to read the same
// documents, which change nothing when they are applied.
func roundTrip(t *testing.T, s *jobs.Scheduler, documents []jobs.Document) {
	t.Helper()
	apply(t, s, documents...)
	byID := map[string]string{}
	for n := range documents {
		byID[documents[n].ID()] = jobs.Canonical(&documents[n])
	}
	check := func(form, text string, read []jobs.Document, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("exported %s is invalid: %v\n%s", form, err, text)
		}
		got := map[string]string{}
		for n := range read {
			got[read[n].ID()] = jobs.Canonical(&read[n])
		}
		if diff := cmp.Diff(byID, got); diff != "" {
			t.Fatalf("exported %s differs:\n%s\n%s", form, diff, text)
		}
		changes, err := s.Apply(t.Context(), read, jobs.ApplyOptions{Prune: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range changes {
			if c.Action != jobs.Unchanged {
				t.Errorf("exported %s: job %s is %s", form, c.Job, c.Action)
			}
		}
	}
	var asYAML, asJSON bytes.Buffer
	if err := jobs.WriteYAML(&asYAML, s.Export(t.Context(), jobs.Filter{})); err != nil {
		t.Fatal(err)
	}
	read, err := parse(asYAML.String())
	check("YAML", asYAML.String(), read, err)
	if err := jobs.WriteJSON(&asJSON, s.Export(t.Context(), jobs.Filter{})); err != nil {
		t.Fatal(err)
	}
	read, err = jobs.ParseJobs(asJSON.Bytes())
	check("JSON", asJSON.String(), read, err)
}

const exported = `version: 1
namespace: "a"
jobs:
- name: big
  kind: fake
  source: 's: #1'
  target: "line\nline "
  credentials:
    source: env:X
    target: file:/etc/x
  follow: true
  after:
    - small
  options:
    header:
      - a
      - "true"
    limit: "20"
    none: []
  labels:
    tier: ""
  placement:
    node: n
    labels:
      - eu
  paused: true
  backoff:
    min: 1s
    max: 1m30s
- name: small
  kind: fake
  source: "null"
  schedule: 17 3 * * *
---
version: 1
namespace: "b"
jobs:
- name: small
  kind: fake
  source: other
`

// TestExport exports jobs, two of which were paused and resumed; a job that runs once is left out.
func TestExport(t *testing.T) {
	eachDatabase(t, fakeKinds, func(t *testing.T, _ *jobdb.DB, s *jobs.Scheduler) {
		if _, err := s.Join(t.Context(), jobs.Node{Name: "n", Labels: []string{"eu"}}); err != nil {
			t.Fatal(err)
		}
		documents, err := parse(exported)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.RunOnce(t.Context(), jobs.Document{Namespace: "a", Kind: "fake", Source: "once"}, false); err != nil {
			t.Fatal(err)
		}
		roundTrip(t, s, documents)
		if _, err := s.Resume(t.Context(), "a/big"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Pause(t.Context(), "b/small"); err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		if err := jobs.WriteYAML(&text, s.Export(t.Context(), jobs.Filter{})); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(exported, text.String()); diff != "" {
			t.Error(diff)
		}
		text.Reset()
		if err := jobs.WriteYAML(&text, s.Export(t.Context(), jobs.Filter{Namespace: "none"})); err != nil || text.String() != "version: 1\njobs: []\n" {
			t.Errorf("no jobs: %v\n%s", err, &text)
		}
		for _, name := range []string{"a", "b"} { // together more than a page
			var many []jobs.Document
			for n := range jobs.MaxLimit {
				many = append(many, jobs.Document{Namespace: name, Name: fmt.Sprint("many-", n), Kind: "fake", Source: fmt.Sprint(name, n)})
			}
			apply(t, s, many...)
		}
		count := 0
		for _, err := range s.Export(t.Context(), jobs.Filter{Name: "many-"}) {
			if err != nil {
				t.Fatal(err)
			}
			count++
		}
		if count != 2*jobs.MaxLimit {
			t.Errorf("%d jobs were exported, want %d", count, 2*jobs.MaxLimit)
		}
	})
}

// FuzzExport reads jobs from YAML, applies them and exports them: the export contains the same jobs.
func FuzzExport(f *testing.F) {
	f.Add(strings.ReplaceAll(exported, "node: n", ""))
	f.Add("version: 1\ndefaults: {kind: fake, labels: {a: b}}\njobs: [{name: a, source: \"\\r\\n\\t \\u2028\\0\"}, {name: b, source: ' x'}]")
	db, err := jobdb.Open(f.Context(), "sqlite::memory:", jobdb.Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = db.Close() })
	s := jobs.NewScheduler(db, fakeKinds, jobs.Defaults())
	f.Fuzz(func(t *testing.T, text string) {
		documents, err := parse(text)
		if err != nil || len(documents) == 0 {
			return
		}
		for n := range documents {
			documents[n].Placement.Node = "" // no node has joined
		}
		exec(t, db, "DELETE FROM @job")
		exec(t, db, "DELETE FROM @event")
		roundTrip(t, s, documents)
	})
}
