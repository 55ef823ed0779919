package producer_test

import (
	"cmp"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var allMutants = flag.Bool("mutants", false, "test the tests: remove each rule of the commit protocol")

// A mutant is the code of this package without one rule of the commit protocol.
type mutant struct {
	name  string
	edits []edit
}

// rare maps each mutant that only one in hundreds of schedules finds to the seed of such a schedule, which is run
// first. If, after a change, another seed is the first to find the mutant, the search takes longer but still
// succeeds: write the new seed here.
var rare = map[string]string{
	"accept a page below the floor":                                                 "747",
	"read the floor before the page has landed":                                     "524",
	"acknowledge an append when the floor was read for the page that it appends to": "903",
}

type edit struct{ file, old, new string }

var mutants = []mutant{
	{"append to a page even if it is closed", []edit{
		{"producer/plan.go", "if p.end != nil && !p.end.Closed {", "if p.end != nil {"},
		{"producer/commit.go", "case newest.Closed:", "case false:"},
		{"producer/pipeline.go", "if !last.landed && (!last.Closed || last.replaces()) {", "if !last.landed {"},
	}},
	{"replace any page in the way, not only an orphan", []edit{
		{"chain/reader.go", "errors.Is(err, storage.ErrNotFound) || err == nil && newest.leadsTo(p)", "errors.Is(err, storage.ErrNotFound)"},
	}},
	{"count a page as valid without comparing the digest", []edit{
		{"chain/page.go", "return p.Closed && next.Prev == p.Digest()", "return p.Closed"},
	}},
	{"accept a page below the floor", []edit{
		{"producer/pipeline.go", "if n < floor {", "if false && n < floor {"},
	}},
	{"read the floor before the page has landed", []edit{
		{"producer/pipeline.go", "version, err := p.feed.put(ctx, w)", "w.early = p.feed.checkFloor(ctx, w.page.Number)\n\tversion, err := p.feed.put(ctx, w)"},
		{"producer/pipeline.go", "err := p.feed.checkFloor(ctx, first.page.Number); err != nil", "err := first.early; err != nil"},
		{"producer/plan.go", "begun     time.Time", "begun     time.Time\n\tearly error"},
	}},
	{"use the remembered page even if it was pruned", []edit{
		{"chain/reader.go", "} else if p.Number < floor {", "} else if false && p.Number < floor {"},
		{"chain/reader.go", "} else if known.Number < floor {\n\t\treturn r.findNewest(ctx)", "} else if known.Number < floor {\n\t\treturn known, nil"},
	}},
	{"publish again after an unknown outcome without reading the feed", []edit{
		{"producer/commit.go", "check = false, !lostRace(err) || b.mayBeInFeed()", "check = false, false"},
		{"producer/commit.go", "check := b.mayBeInFeed()", "check := false"},
	}},
	{"take the highest page in the store for the newest", []edit{
		{"chain/search.go", "start := max(floor, top-Ahead)", "start := top"},
	}},
	{"call a page linked before it has landed", []edit{
		{"producer/pipeline.go", "w.page.Settled = p.settled", "w.page.Settled = w.page.Number - 1"},
	}},
	{"treat pages beyond a lost one as orphans", []edit{
		{"chain/lost.go", "func (p *Page) ProvesLoss(newest *Page) bool {", "func (p *Page) ProvesLoss(newest *Page) bool {\n\tif newest == nil || newest != nil {\n\t\treturn false\n\t}"},
	}},
	{"search for pages beyond a lost one only next to it", []edit{
		{"chain/lost.go", "r.loadHidden(ctx, from, last+Ahead+1)", "r.loadHidden(ctx, from, from-1)"},
	}},
	{"acknowledge an append when the floor was read for the page that it appends to", []edit{
		{"producer/pipeline.go", "before.confirmed || before.landed && before.page", "before.confirmed || before.page"},
	}},
	{"create more pages ahead than a reader looks back", []edit{
		{"producer/pipeline.go", "return last.page.Number < p.top+chain.Ahead", "return true"},
	}},
	{"acknowledge a page before the one before it has landed", []edit{
		{"producer/pipeline.go", "before.confirmed || before.landed && before.page", "before.confirmed || before.page"},
		{"producer/pipeline.go", "if !w.landed {\n\t\t\tbreak\n\t\t}\n\t\tif !w.confirmed", "if !w.landed {\n\t\t\tcontinue\n\t\t}\n\t\tif !w.confirmed"},
	}},
}

// deleteMutants lists mutants without one rule of the deletion of a feed.
var deleteMutants = []mutant{
	{"do not record that the feed is being deleted", []edit{
		{"chain/delete.go", "if !r.Deleting {\n\t\t\tr.Deleting = true", "if false {\n\t\t\tr.Deleting = true"},
	}},
	{"confirm a page that was created while the feed is being deleted", []edit{
		{"chain/reader.go", "if err == nil && record.Deleting {", "if false && record.Deleting {"},
	}},
	{"leave open pages at the version that was read before", []edit{
		{"chain/delete.go", "return together.Do(len(pages), func(i int) error {", "return together.Do(0, func(i int) error {"},
	}},
	{"continue with the page number after the last one", []edit{
		{"chain/delete.go", "r.Floor, r.Deleting, r.Deleted = sealed+deleteGap,", "r.Floor, r.Deleting, r.Deleted = sealed+1,"},
	}},
	{"search for pages only before producers can know of the deletion", []edit{
		{"chain/delete.go", "if pages, err = lastPages(ctx, store, feed, r); err != nil {", "if err != nil {"},
	}},
}

// TestMutants removes one rule at a time from the code, and expects a test to fail.
func TestMutants(t *testing.T) {
	if !*allMutants {
		t.Skip("compiles the package once for every rule: run by \"make mutants\"")
	}
	schedules := []string{"schedule_test.go", "model_test.go", "modelcheck_test.go"}
	for _, m := range mutants {
		m.isFound(t, "TestSchedules", schedules, "-schedules", "3000", "-seed", cmp.Or(rare[m.name], "1"))
	}
	deletions := append(schedules, "delete_test.go", "fault_test.go")
	for _, m := range deleteMutants {
		m.isFound(t, "TestDelete(Killed|WhilePublishing|Around)?", deletions)
	}
}

// isFound expects a test to fail. Only the files that the test needs are compiled, since other tests link whole
// servers.
func (m mutant) isFound(t *testing.T, test string, files []string, args ...string) {
	t.Run(strings.ReplaceAll(m.name, " ", "_"), func(t *testing.T) {
		t.Parallel()
		out, err := runMutant(t, m, slices.Concat(files, []string{"-run", "^" + test + "$"}, args))
		if err == nil {
			t.Fatalf("%s passes without a rule:\n%s", test, out)
		}
		if !regexp.MustCompile("--- FAIL: " + test + "|panic: ").MatchString(out) {
			t.Fatalf("%s did not run: %v\n%s", test, err, out)
		}
	})
}

// runMutant runs "go test" with an -overlay that replaces files of the module with those of the mutant.
func runMutant(t *testing.T, m mutant, args []string) (string, error) {
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
			t.Fatalf("%s does not contain %q exactly once", e.file, e.old)
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
	out, err := exec.CommandContext(t.Context(), "go", append([]string{"test", "-vet=off", "-ldflags=-w", "-overlay", list}, args...)...).CombinedOutput()
	return string(out), err
}
