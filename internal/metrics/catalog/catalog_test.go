package catalog

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// TestList: names are unique and follow the conventions of Prometheus, and nothing that the documentation
// needs is missing.
func TestList(t *testing.T) {
	t.Parallel()
	valid, seen := regexp.MustCompile(`^[a-z]+(_[a-z0-9]+)+$|^jobs$|^feeds$|^readers$|^origins$`), map[string]bool{}
	for _, g := range Groups() {
		if g.Title == "" || len(g.Commands) == 0 || len(g.Metrics) == 0 {
			t.Errorf("group %+v", g)
		}
		for _, m := range g.Metrics {
			if seen[m.Name] || !valid.MatchString(m.Name) || strings.HasPrefix(m.Name, Prefix) {
				t.Errorf("%s: the name is not unique, or not valid", m.Name)
			}
			seen[m.Name] = true
			if total := strings.HasSuffix(m.Name, "_total"); total != (m.Type == Counter) {
				t.Errorf("%s is a %s: want _total at the end of counters only", m.Name, m.Type)
			}
			if (m.Type == Histogram) != (len(m.Buckets) > 0) || !slices.IsSorted(m.Buckets) {
				t.Errorf("%s has the buckets %v", m.Name, m.Buckets)
			}
			if !strings.HasSuffix(m.Help, ".") || strings.ContainsAny(m.Help, "|\n") {
				t.Errorf("%s: %q does not consist of sentences", m.Name, m.Help)
			}
		}
	}
	if len(seen) != len(Names()) {
		t.Errorf("%d names of %d metrics", len(Names()), len(seen))
	}
	for _, name := range Names() {
		if _, ok := Find(name); !ok {
			t.Errorf("%s is not found", name)
		}
	}
	if _, ok := Find("up"); ok {
		t.Error("up is found, although it is not a metric of feedctl")
	}
}

// TestUnknown: a name that is not in the list, or whose metric has another type, causes a panic.
func TestUnknown(t *testing.T) {
	t.Parallel()
	for what, do := range map[string]func(){
		"unknown":      func() { Send(make(chan prometheus.Metric, 1), "none", 1) },
		"other type":   func() { NewHistogram("http_requests_total") },
		"other labels": func() { Send(make(chan prometheus.Metric, 1), "feeds", 1, "f") },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", what)
				}
			}()
			do()
		}()
	}
}

// TestValues adds more values to a label than it may have.
func TestValues(t *testing.T) {
	t.Parallel()
	const most = 500
	n := NewValues(most)
	for k := range most {
		name := string(rune('a' + k))
		if got := n.Label(name); got != name {
			t.Fatalf("name %d is %q", k, got)
		}
	}
	if a, b, c := n.Label("a"), n.Label("one more"), n.Label(""); a != "a" || b != "other" || c != "other" {
		t.Errorf("after %d names: %q, %q, %q", most, a, b, c)
	}
	if gone := n.Keep(map[string]bool{"a": true}); len(gone) != most-1 || n.Label("one more") != "one more" {
		t.Errorf("%d names were forgotten, want %d", len(gone), most-1)
	}
}
