package producer_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A mutant is the code with one rule of the commit protocol left out.
type mutant struct {
	name  string
	edits []edit
}

type edit struct{ file, old, new string }

var mutants = []mutant{
	{"append to a page without looking whether it is closed", []edit{
		{"producer/plan.go", "if p.end != nil && !p.end.Closed {", "if p.end != nil {"},
		{"producer/commit.go", "case newest.Closed:", "case false:"},
		{"producer/pipeline.go", "if !last.landed && (!last.closed || last.replaces()) {", "if !last.landed {"},
	}},
	{"replace whatever stands in the way, not only an orphan", []edit{
		{"chain/reader.go", "errors.Is(err, storage.ErrNotFound) || err == nil && newest.leadsTo(p)", "errors.Is(err, storage.ErrNotFound)"},
	}},
	{"count a page as valid without comparing the digest", []edit{
		{"chain/page.go", "return p.Closed && next.Prev == p.Digest()", "return p.Closed"},
	}},
	{"believe in a page below the floor", []edit{
		{"producer/pipeline.go", "if n < floor {", "if false && n < floor {"},
	}},
	{"look at the floor before the page has landed", []edit{
		{"producer/pipeline.go", "version, err := p.feed.put(ctx, w)", "w.early = p.feed.checkFloor(ctx, w.page.Number)\n\tversion, err := p.feed.put(ctx, w)"},
		{"producer/pipeline.go", "err := p.feed.checkFloor(ctx, first.page.Number); err != nil", "err := first.early; err != nil"},
		{"producer/plan.go", "begun     time.Time", "begun     time.Time\n\tearly error"},
	}},
	{"take the remembered page for one of the feed though it was pruned", []edit{
		{"chain/reader.go", "} else if p.Number < floor {", "} else if false && p.Number < floor {"},
		{"chain/reader.go", "} else if known.Number < floor {\n\t\treturn r.cold(ctx)", "} else if known.Number < floor {\n\t\treturn known, nil"},
	}},
	{"publish again after an unknown outcome without looking", []edit{
		{"producer/commit.go", "f.tail.known, check = false, true", "f.tail.known = false"},
		{"producer/commit.go", "check = check || i.given", "_ = i"},
	}},
	{"take the highest page in the store for the newest", []edit{
		{"chain/reader.go", "start = max(floor, top-Ahead)", "start = top"},
	}},
	{"call a page linked before it has landed", []edit{
		{"producer/pipeline.go", "w.page.Settled = p.settled", "w.page.Settled = w.page.Number - 1"},
	}},
	{"take pages beyond a lost one for orphans", []edit{
		{"chain/lost.go", "func (p *Page) Proves(newest *Page) bool {", "func (p *Page) Proves(newest *Page) bool {\n\tif newest == nil || newest != nil {\n\t\treturn false\n\t}"},
	}},
	{"look for pages beyond a lost one only next to it", []edit{
		{"chain/lost.go", "r.loadHidden(ctx, from, last+Ahead+1)", "r.loadHidden(ctx, from, from-1)"},
	}},
	{"acknowledge an append when the floor was read for the page that it appends to", []edit{
		{"producer/pipeline.go", "before.confirmed || before.landed && before.page", "before.confirmed || before.page"},
	}},
	{"create more pages ahead than a reader looks back", []edit{
		{"producer/pipeline.go", "return last.page.Number < p.top+chain.Ahead", "return true"},
	}},
	{"acknowledge a page though one before it is not there", []edit{
		{"producer/pipeline.go", "before.confirmed || before.landed && before.page", "before.confirmed || before.page"},
		{"producer/pipeline.go", "if !w.landed {\n\t\t\tbreak\n\t\t}\n\t\tif !w.confirmed", "if !w.landed {\n\t\t\tcontinue\n\t\t}\n\t\tif !w.confirmed"},
	}},
}

// TestMutants leaves out one rule after another and expects TestSchedules to find
// out.
func TestMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the package once for every rule")
	}
	for _, m := range mutants {
		t.Run(strings.ReplaceAll(m.name, " ", "_"), func(t *testing.T) {
			out, err := runMutant(t, m)
			if err == nil {
				t.Fatalf("TestSchedules passes with a rule left out:\n%s", out)
			}
			if !strings.Contains(out, "--- FAIL: TestSchedules") && !strings.Contains(out, "panic: ") {
				t.Fatalf("TestSchedules did not run: %v\n%s", err, out)
			}
		})
	}
}

// runMutant runs TestSchedules with files replaced by way of go's -overlay.
func runMutant(t *testing.T, m mutant) (string, error) {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	sources := map[string]string{}
	for _, e := range m.edits {
		path := filepath.Join(root, e.file)
		if _, ok := sources[path]; !ok {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			sources[path] = string(data)
		}
		if strings.Count(sources[path], e.old) != 1 {
			t.Fatalf("%s does not hold %q exactly once", e.file, e.old)
		}
		sources[path] = strings.Replace(sources[path], e.old, e.new, 1)
	}
	overlay := map[string]map[string]string{"Replace": {}}
	dir := t.TempDir()
	for path, source := range sources {
		mutated := filepath.Join(dir, strings.ReplaceAll(path, string(filepath.Separator), "_"))
		if err := os.WriteFile(mutated, []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay["Replace"][path] = mutated
	}
	data, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, data, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-overlay", list,
		"-run", "^TestSchedules$", ".", "-schedules", "3000").CombinedOutput()
	return string(out), err
}
