package dir_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/sink/dir"
	"github.com/feedctl/feedctl/sink/sinktest"
)

func TestConformance(t *testing.T) {
	sinktest.Run(t, options())
}

func options() sinktest.Options {
	path := func(parent string) string { return filepath.Join(parent, "out") }
	return sinktest.Options{
		Open: func(_ context.Context, parent string) (consumer.Sink, error) { return dir.Open(path(parent)) },
		Read: func(parent string) ([]sinktest.Record, error) { return readDir(path(parent)) },
		OpenFaulty: func(_ context.Context, parent string, before func() error) (consumer.Sink, error) {
			return dir.OpenFaulty(path(parent), before)
		},
	}
}

// readDir reads a directory as the package documentation describes. It returns an error
// if the directory contains anything else.
func readDir(path string) ([]sinktest.Record, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var records []sinktest.Record
	for _, entry := range entries {
		if entry.Name() == ".feedctl" {
			continue
		}
		record, err := readFile(path, entry.Name())
		if err != nil {
			return nil, err
		}
		records = append(records, record)
	}
	meta, err := os.ReadDir(filepath.Join(path, ".feedctl", "meta"))
	if err != nil {
		return nil, err
	}
	if len(meta) != len(records) {
		return nil, errors.New("bodies and metadata files do not match")
	}
	stages, err := filepath.Glob(filepath.Join(path, ".feedctl", "batch-*"))
	if len(stages) > 0 {
		return nil, errors.New("a staging directory was left behind: " + stages[0])
	}
	return records, err
}

func readFile(path, name string) (r sinktest.Record, err error) {
	if r.Body, err = os.ReadFile(filepath.Join(path, name)); err != nil {
		return r, err
	}
	data, err := os.ReadFile(filepath.Join(path, ".feedctl", "meta", name+".json"))
	if err != nil {
		return r, err
	}
	var m struct {
		Key          string
		KeyBase64    []byte    `json:"keyBase64"`
		ContentID    string    `json:"contentId"`
		LastModified time.Time `json:"lastModified"`
		ContentType  string    `json:"contentType"`
		Headers      map[string][]string
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return r, err
	}
	r.Key, r.ContentType, r.ContentID, r.LastModified, r.Header = m.Key+string(m.KeyBase64), m.ContentType, m.ContentID, m.LastModified, m.Headers
	return r, nil
}

func TestFileName(t *testing.T) {
	long := strings.Repeat("k", 1000)
	for key, want := range map[string]string{
		"a":        "a",
		"a/b":      "a%2Fb",
		".":        "%2E",
		"..":       "%2E.",
		".feedctl": "%2Efeedctl",
		"a.json":   "a.json",
		"a%2Fb":    "a%252Fb",
		"ü":        "%C3%BC",
		"\x00\xff": "%00%FF",
		long[:240]: long[:240],
		long:       long[:128] + "%-6af1a1e9e0bdcd45c4e8e7a4b7e7b0c8",
	} {
		if got := dir.FileName(key); got != want && (key != long || !strings.HasPrefix(got, want[:130]) || len(got) != 194) {
			t.Errorf("file of %q is %q, want %q", key, got, want)
		}
	}
}

// FuzzFileName checks that names are safe and unique, and decode to their keys.
func FuzzFileName(f *testing.F) {
	f.Add("a", "A")
	f.Add("..", "%2E.")
	f.Add(strings.Repeat("ü", 41), strings.Repeat("x", 127)+"/"+strings.Repeat("y", 200))
	f.Fuzz(func(t *testing.T, a, b string) {
		name := dir.FileName(a)
		if a != "" && (name == "" || name[0] == '.' || len(name) > 240 || strings.ContainsAny(name, "/\\\x00")) {
			t.Fatalf("file of %q is %q", a, name)
		}
		if a != b && name == dir.FileName(b) {
			t.Fatalf("%q and %q share the file %q", a, b, name)
		}
		if key, err := url.PathUnescape(name); !strings.Contains(name, "%-") && (err != nil || key != a) {
			t.Fatalf("file of %q is %q, which is read as %q (%v)", a, name, key, err)
		}
	})
}

func TestRefused(t *testing.T) {
	path := t.TempDir()
	if err := os.WriteFile(filepath.Join(path, "mine"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := dir.Open(path); err == nil || !strings.Contains(err.Error(), "use an empty directory") {
		t.Errorf("a directory with a file: %v", err)
	}
	if _, err := dir.Open(filepath.Join(path, "mine")); err == nil {
		t.Error("a file was opened")
	}
	if _, err := dir.Open(filepath.Join(path, "no", "parent")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no parent: %v", err)
	}
	later := t.TempDir()
	k, err := dir.Open(later)
	if err != nil {
		t.Fatal(err)
	}
	k.Close()
	if err := os.WriteFile(filepath.Join(later, ".feedctl", "position"), []byte(`{"version":2}`), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := dir.Open(later); err == nil || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("a later version: %v", err)
	}
}

// TestEarlierMembers changes a file whose metadata was written by an earlier version.
func TestEarlierMembers(t *testing.T) {
	path := t.TempDir()
	k, err := dir.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	for name, content := range map[string]string{
		"a": `{"n":1}`,
		".feedctl/meta/a.json": `{"key":"a","content_id":"<0@example.com>","last_modified":"2026-05-01T10:00:00Z",` +
			`"content_type":"application/vnd.x+json","headers":{"X-A":["1"]}}`,
	} {
		if err := os.WriteFile(filepath.Join(path, name), []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	batch, err := k.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	change := feed.Entity{
		ContentID: "<1@example.com>", Operation: feed.Patch, ContentLocation: "a", ContentType: "application/merge-patch+json", Body: []byte(`{"n":2}`),
	}
	if err := errors.Join(batch.Apply(t.Context(), &change), batch.Commit(t.Context(), feed.Position{ContentID: change.ContentID})); err != nil {
		t.Fatal(err)
	}
	r, err := readFile(path, "a")
	if err != nil || r.ContentType != "application/vnd.x+json" || r.ContentID != change.ContentID || string(r.Body) != `{"n":2}` {
		t.Errorf("the file has %+v (%v)", r, err)
	}
}

func BenchmarkSink(b *testing.B) { sinktest.Benchmark(b, options()) }
