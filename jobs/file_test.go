package jobs_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/jobs"
)

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReadFiles(t *testing.T) {
	path := writeFile(t, "jobs.yaml", `version: 1
namespace: shop
defaults:
  labels: {team: data}
  options: {limit: 10, verbose: true}
  backoff: {min: 10s}
jobs:
  - name: orders
    kind: fake
    source: https://db.example.org/orders
    target: s3:bucket/feeds#orders
    credentials: {source: env:ORDERS_DB}
    follow: true
    options:
      limit: 20
      header: [a, b]
  - name: prune
    kind: fake
    source: s3:bucket/feeds#orders
    schedule: "17 3 * * *"
    after: [orders]
    placement: {node: big, labels: [eu, ssd]}
    labels: {tier: low}
---
version: 1
jobs:
  - {name: other, kind: fake, source: x, paused: true}
---
`)
	got, err := fakeKinds.ReadFiles(path)
	if err != nil {
		t.Fatal(err)
	}
	want := []jobs.Document{
		{
			Namespace: "shop", Name: "orders", Kind: "fake", Source: "https://db.example.org/orders", Target: "s3:bucket/feeds#orders", Follow: true,
			Credentials: map[string]string{"source": "env:ORDERS_DB"},
			Options:     map[string]jobs.Values{"limit": {"20"}, "verbose": {"true"}, "header": {"a", "b"}},
			Labels:      map[string]string{"team": "data"}, Backoff: jobs.Backoff{Min: 10 * time.Second},
		},
		{
			Namespace: "shop", Name: "prune", Kind: "fake", Source: "s3:bucket/feeds#orders", Schedule: "17 3 * * *", After: []string{"orders"}, Placement: jobs.Placement{Node: "big", Labels: []string{"eu", "ssd"}},
			Options: map[string]jobs.Values{"limit": {"10"}, "verbose": {"true"}},
			Labels:  map[string]string{"team": "data", "tier": "low"}, Backoff: jobs.Backoff{Min: 10 * time.Second},
		},
		{Namespace: "default", Name: "other", Kind: "fake", Source: "x", Paused: true, Options: map[string]jobs.Values{}, Labels: map[string]string{}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestReadBadFiles expects all problems to be reported at once, with line numbers.
func TestReadBadFiles(t *testing.T) {
	path := writeFile(t, "bad.yaml", `version: 1
jobs:
  - name: a
    kind: fake
    sources: x
    after: [b]
  - name: b
    kind: fake
    source: x
    follow: maybe
    after: [a]
  - name: c
    kind: fale
  - name: d
    kind: fake
    source: x
    follow: true
    schedule: "* * * * *"
    credentials:
      source: secret
      sink: env:X
  - name: d
    kind: fake
    source: y
  - {name: f, kind: fake, source: z, target: t}
  - name: g
    kind: fake
    source: zz
    target: t
  - {name: h, kind: fake, source: z, target: t}
  - name: E!
    kind: fake
    source: y
    schedule: daily
    backoff: {min: 2h, max: 1h}
    labels: [x]
`)
	_, err := fakeKinds.ReadFiles(path)
	if !errors.Is(err, jobs.ErrInvalid) {
		t.Fatalf("read bad files: %v", err)
	}
	want := []string{
		`:3: job "default/a": source: there is no source`,
		`:5: unknown field "sources"; did you mean "source"?`,
		`:6: job "default/a": after: the job waits for itself: default/a → default/b → default/a`,
		`:10: follow: want true or false`,
		`:13: job "default/c": kind: unknown kind "fale": want one of fake`,
		`:16: job "default/d": source: job "default/b" does the same`,
		`:18: job "default/d": schedule: a job that follows always runs: remove schedule or follow`,
		`:20: job "default/d": credentials.source: want env:NAME or file:PATH, a reference instead of the credential`,
		`:21: job "default/d": credentials.sink: want source or target: what the credential is for`,
		`:22: job "default/d": name: another job has this name, at PATH:14`,
		`:29: job "default/g": target: job "default/f" writes to the same target`,
		`:30: job "default/h": source: job "default/f" does the same`,
		`:31: job "default/E!": name: invalid name "E!": want up to 64 of a-z 0-9 . _ -, a letter or digit first and last`,
		`:33: job "default/E!": source: job "default/d" does the same`,
		`:34: job "default/E!": schedule: invalid schedule "daily"`,
		`:35: job "default/E!": backoff: min 2h0m0s and max 1h0m0s: want durations, min not above max`,
		`:36: labels: want fields, such as "name: value"`,
	}
	lines := strings.Split(strings.ReplaceAll(err.Error(), path, "PATH"), "\n")
	for n, w := range want {
		if n >= len(lines) || !strings.HasPrefix(strings.TrimPrefix(lines[n], "PATH"), w) {
			t.Fatalf("line %d: want %s\ngot:\n%s", n, w, strings.Join(lines, "\n"))
		}
	}
	if len(lines) != len(want) {
		t.Errorf("got %d problems:\n%s", len(lines), strings.Join(lines, "\n"))
	}
	for _, text := range []string{"version: 2\njobs: []\n", "version: 1\n", "jobs: [", "[]", "version: 1\njobs: {a: b}\n", "version: 1\njobs: [x]\n"} {
		if _, err := fakeKinds.ReadFiles(writeFile(t, "bad.yaml", text)); !errors.Is(err, jobs.ErrInvalid) || !strings.Contains(err.Error(), "bad.yaml:") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestReadAllAtOnce: all problems of all jobs are reported at once, even if jobs have no name or
// share one, or if a problem shows only by comparison with what is stored.
func TestReadAllAtOnce(t *testing.T) {
	path := writeFile(t, "bad.yaml", `version: 1
jobs:
  - kind: fake
    target: t
  - source: y
    kind: fale
  - name: a
    kind: fake
    source: z
    options: {limit: 1, retries: 2, limit: 3}
  - name: a
    kind: fake
    source: z
    follow: true
    schedule: "* * * * *"
    labels:
      team: x
      team: y
    placement: {node: nowhere}
    after: [stored, gone]
  - name: twin
    kind: fake
    source: other
    backoff: {min: -1s}
    source: stored
`)
	files, err := fakeKinds.Read(jobs.ReadOptions{}, path)
	check := func(err error, want ...string) {
		t.Helper()
		got := strings.Split(strings.ReplaceAll(err.Error(), path+":", ""), "\n")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	alone := []string{
		`3: name: the job has no name`,
		`3: source: there is no source`,
		`5: name: the job has no name`,
		`6: kind: unknown kind "fale": want one of fake`,
		`10: options: "limit" appears twice: also at line 10`,
		`11: job "default/a": name: another job has this name, at 7`,
		`15: job "default/a": schedule: a job that follows always runs: remove schedule or follow`,
		`18: labels: "team" appears twice: also at line 17`,
		`24: job "default/twin": backoff: min -1s and max 0s: want durations, min not above max`,
		`25: "source" appears twice: also at line 23`,
	}
	if !errors.Is(err, jobs.ErrInvalid) || files == nil {
		t.Fatalf("%v, %v", files, err)
	}
	check(err, alone...)

	store, err := jobs.Open(t.Context(), "sqlite::memory:", fakeKinds, jobs.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	apply(t, store, jobs.Document{Namespace: "default", Name: "stored", Kind: "fake", Source: "other"})
	_, err = store.Apply(t.Context(), files.Documents, jobs.ApplyOptions{DryRun: true})
	if !errors.Is(err, jobs.ErrInvalid) {
		t.Fatal(err)
	}
	all := slices.Concat(alone[:7], alone[7:8],
		[]string{
			`19: job "default/a": placement.node: there is no node "nowhere": start it first, with "feedctl jobs worker --name nowhere"`,
			`20: job "default/a": after: "gone" is not a job`,
		}, alone[8:9], alone[9:], []string{`25: job "default/twin": source: job "default/stored" does the same`})
	check(files.Locate(err), all...)
}

// TestLocate: problems that only the database reveals are reported with lines of the files.
func TestLocate(t *testing.T) {
	path := writeFile(t, "jobs.yaml", `version: 1
jobs:
  - name: a
    kind: fake
    source: x
    target: t
  - name: b
    kind: fake
    source: y
    placement: {node: nowhere}
`)
	files, err := fakeKinds.Read(jobs.ReadOptions{}, path)
	if err != nil {
		t.Fatal(err)
	}
	store, err := jobs.Open(t.Context(), "sqlite::memory:", fakeKinds, jobs.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	other := []jobs.Document{{Namespace: "n", Name: "other", Kind: "fake", Source: "z", Target: "t"}}
	if _, err := store.Apply(t.Context(), other, jobs.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err = store.Apply(t.Context(), files.Documents, jobs.ApplyOptions{})
	want := path + `:6: job "default/a": target: job "n/other" writes to the same target
` + path + `:10: job "default/b": placement.node: there is no node "nowhere": start it first, with "feedctl jobs worker --name nowhere"`
	if got := files.Locate(err).Error(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if _, err := store.Get(t.Context(), "default/a"); !errors.Is(err, jobs.ErrNoJob) {
		t.Errorf("a job of the file is stored: %v", err)
	}
	if _, err := store.Join(t.Context(), jobs.Node{Name: "nowhere"}); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Apply(t.Context(), files.Documents[1:], jobs.ApplyOptions{}); err != nil {
		t.Errorf("once the node exists: %v", err)
	}
	if err := files.Locate(errBad); err != errBad {
		t.Errorf("an unrelated error became %v", err)
	}
}

// localKind is a kind of job that uses local files.
type localKind struct{ fakeKind }

func (localKind) Identify(d *jobs.Document) jobs.Identity {
	return jobs.Identity{Work: d.Source, Local: true}
}

func TestReadPins(t *testing.T) {
	path := writeFile(t, "jobs.yaml", `version: 1
jobs:
  - {name: a, kind: local, source: x}
  - {name: b, kind: local, source: y, placement: {node: other}}
  - {name: c, kind: fake, source: x}
`)
	kinds := jobs.Kinds{"local": localKind{}, "fake": fakeKind{}}
	if _, err := kinds.ReadFiles(path); !errors.Is(err, jobs.ErrInvalid) || !strings.Contains(err.Error(), `:3: job "default/a": placement.node: the job uses local files`) {
		t.Errorf("without a node: %v", err)
	}
	files, err := kinds.Read(jobs.ReadOptions{Node: "here"}, path)
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range []string{"here", "other", ""} {
		if got := files.Documents[n].Placement.Node; got != want {
			t.Errorf("job %s is pinned to %q, want %q", files.Documents[n].Name, got, want)
		}
	}
	store, err := jobs.Open(t.Context(), "sqlite::memory:", kinds, jobs.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if _, err := store.Apply(t.Context(), files.Documents[:1], jobs.ApplyOptions{Node: "here"}); err != nil {
		t.Error(err)
	}
}

// TestReadVolume reads a directory like the one that Kubernetes makes from a ConfigMap: links into
// a hidden directory that contains the files, and that is replaced as a whole.
func TestReadVolume(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "volume", "..2026_11_23_10_00_00.123")
	link := filepath.Join(dir, "link")
	err := errors.Join(
		os.MkdirAll(data, 0o700),
		os.WriteFile(filepath.Join(data, "jobs.yaml"), []byte("version: 1\njobs:\n  - {name: a, kind: fake, source: x}\n"), 0o600),
		os.Symlink(filepath.Base(data), filepath.Join(dir, "volume", "..data")),
		os.Symlink("..data/jobs.yaml", filepath.Join(dir, "volume", "jobs.yaml")),
		os.WriteFile(filepath.Join(dir, "volume", ".jobs.yaml.swp.yaml"), []byte("not YAML: ["), 0o600),
		os.Symlink("volume", link),
	)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(dir, "volume"), link, filepath.Join(link, "jobs.yaml")} {
		if documents, err := fakeKinds.ReadFiles(path); err != nil || len(documents) != 1 {
			t.Errorf("%s: %d jobs, %v", path, len(documents), err)
		}
	}
	if _, err := fakeKinds.ReadFiles(data); err != nil {
		t.Errorf("a hidden directory that is given as an argument: %v", err)
	}
	bad := filepath.Join(link, "bad.yaml")
	if err := os.WriteFile(bad, []byte("version: 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := fakeKinds.ReadFiles(link); err == nil || !strings.HasPrefix(err.Error(), bad+":1: ") {
		t.Errorf("the error does not name the file by the path that was given: %v", err)
	}
}
