package reconcile_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/reconcile"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/jsonl"
)

// TestLog: lines that are missing, duplicate, foreign or out of order are found.
func TestLog(t *testing.T) {
	w := newWorld(t)
	w.publish(300)
	path := filepath.Join(t.TempDir(), "out.jsonl")
	s, err := jsonl.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	job := consumer.Job{Client: w.client, URL: w.url, Sink: s}
	if _, err := job.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Close()
	w.publish(5) // the file does not have them yet
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for e, err := range w.client.Entities(t.Context(), w.url, consumer.Beginning()) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, e.ContentID)
	}
	foreign := `{"key":"x","operation":"PUT","contentId":"<foreign>","lastModified":null,"contentType":"","headers":{}}` + "\n"
	for name, test := range map[string]struct {
		edit func(lines []string) []string
		want []string
	}{
		"nothing": {func(l []string) []string { return l }, nil},
		"missing": {func(l []string) []string { return slices.Delete(l, 7, 9) }, []string{"+ " + ids[7], "+ " + ids[8]}},
		"last":    {func(l []string) []string { return l[:299] }, []string{"+ " + ids[299]}},
		"twice":   {func(l []string) []string { return slices.Insert(l, 20, l[10]) }, []string{"- " + ids[10]}},
		"foreign": {func(l []string) []string { return slices.Insert(l, 20, foreign) }, []string{"- <foreign>"}},
		"order":   {func(l []string) []string { l[3], l[4] = l[4], l[3]; return l }, []string{"* " + ids[4]}},
		"from":    {func(l []string) []string { return append([]string{foreign}, l[100:]...) }, nil},
	} {
		var lines []string
		for line := range bytes.Lines(whole) {
			lines = append(lines, string(line))
		}
		data := []byte{}
		for _, line := range test.edit(lines) {
			data = append(data, line...)
		}
		record, err := os.ReadFile(path + ".position")
		if err != nil {
			t.Fatal(err)
		}
		edited := filepath.Join(t.TempDir(), "edited.jsonl")
		record = bytes.Replace(record, fmt.Appendf(nil, `"length":%d`, len(whole)), fmt.Appendf(nil, `"length":%d`, len(data)), 1)
		if err := os.WriteFile(edited, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(edited+".position", record, 0o600); err != nil {
			t.Fatal(err)
		}
		log, err := jsonl.OpenContents(t.Context(), sink.Spec{Scheme: "jsonl", Path: edited})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		report, err := reconcile.RunLog(t.Context(), reconcile.LogConfig{Client: w.client, URL: w.url, Found: func(l reconcile.Line) error {
			got = append(got, fmt.Sprintf("%c %s", l.Kind, l.Key))
			return nil
		}}, log)
		log.Close()
		if err != nil || !slices.Equal(got, test.want) || report.Differences() != int64(len(test.want)) {
			t.Errorf("%s: found %q, want %q; %v, %+v", name, got, test.want, err, report)
		}
		if remarks := len(report.Remarks); (name == "from") != (remarks == 2) {
			t.Errorf("%s: remarks are %q", name, report.Remarks)
		}
	}
}
