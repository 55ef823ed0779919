package jobs_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/jobs"
)

// TestParseJob reads a job from JSON, and again from the JSON that it is encoded as.
func TestParseJob(t *testing.T) {
	t.Parallel()
	want := jobs.Document{
		Namespace: "shop", Name: "orders", Kind: "fake", Source: "s", Target: "t", Follow: true, After: []string{"a"},
		Credentials: map[string]string{"source": "env:X"}, Labels: map[string]string{"tier": "low"}, Placement: jobs.Placement{Node: "n"}, Paused: true,
		Options: map[string]jobs.Values{"limit": {"20"}, "header": {"a", "b"}, "verbose": {"true"}},
		Backoff: jobs.Backoff{Min: 90 * time.Second, Max: 90 * time.Second},
	}
	text := `{"namespace": "shop", "name": "orders", "kind": "fake", "source": "s", "target": "t", "follow": true, "after": ["a"],
		"credentials": {"source": "env:X"}, "labels": {"tier": "low"}, "placement": {"node": "n"}, "paused": true,
		"options": {"limit": 20, "header": ["a", "b"], "verbose": true}, "backoff": {"min": "90s", "max": "1m30s"}}`
	for range 2 {
		got, err := jobs.ParseJob([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s\n%s", text, diff)
		}
		again, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		text = string(again)
		var decoded jobs.Document
		if err := json.Unmarshal(again, &decoded); err != nil || !cmp.Equal(want, decoded) {
			t.Errorf("%s: %v\n%s", text, err, cmp.Diff(want, decoded))
		}
	}
	for _, part := range []string{`"limit":"20"`, `"header":["a","b"]`, `"backoff":{"min":"1m30s","max":"1m30s"}`} {
		if !strings.Contains(text, part) {
			t.Errorf("%s has no %s", text, part)
		}
	}
}

func TestParseJobProblems(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		``:                              "line 1: invalid JSON: unexpected EOF",
		`{"name": "a"`:                  "line 1: invalid JSON: unexpected EOF",
		"{\n\"name\": \"a\"}\n{}":       "line 3: invalid JSON: want one value",
		`[]`:                            "line 1: want fields, such as \"name: value\"",
		`{"sorce": "x", "color": 1}`:    "line 1: unknown field \"sorce\"; did you mean \"source\"?\nline 1: unknown field \"color\"",
		`{"name": "a", "name": "b"}`:    "line 1: \"name\" appears twice: also at line 1",
		`{"name": null, "follow": "?"}`: "line 1: name: want a string\nline 1: follow: want true or false",
		`{"backoff": {"min": 30}}`:      "line 1: backoff.min: want a duration, such as 30s or 1h",
		strings.Repeat("[", 1000):       "line 1: invalid JSON: values are nested more than 8 deep",
	} {
		_, err := jobs.ParseJob([]byte(text))
		if err == nil || err.Error() != want {
			t.Errorf("%.50s: got\n%v\nwant\n%s", text, err, want)
		}
	}
	documents, err := jobs.ParseJobs([]byte(`{"version": 1, "namespace": "shop", "defaults": {"kind": "fake"}, "jobs": [{"name": "a", "source": "x"}, {"name": "b", "x": 1}, {"name": "a"}]}`))
	if len(documents) != 3 || documents[0].ID() != "shop/a" || documents[0].Kind != "fake" {
		t.Errorf("got %v", documents)
	}
	if want := "line 1: unknown field \"x\""; err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

// TestSecondsJSON: durations are numbers of seconds in JSON.
func TestSecondsJSON(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		value any
		want  string
	}{
		{jobs.Stats{Entities: 3, Lag: 1500 * time.Millisecond}, `{"entities":3,"bytes":0,"repeated":0,"rejected":0,"pending":0,"lagSeconds":1.5}`},
		{&jobs.Stats{Pending: -1, Lag: -1, Position: "p"}, `{"entities":0,"bytes":0,"repeated":0,"rejected":0,"pending":-1,"position":"p"}`},
		{&jobs.Lease{Age: 2 * time.Second}, `{"ageSeconds":2}`},
		{&jobs.Lease{Age: -1, Stale: true}, `{"stale":true}`},
		{
			jobs.NodeStatus{Node: jobs.Node{Name: "n"}, Age: 3 * time.Second, Alive: true, Started: time.Unix(0, 0).UTC()},
			`{"incarnation":"","name":"n","slots":0,"version":"","started":"1970-01-01T00:00:00Z","alive":true,"running":0,"ageSeconds":3}`,
		},
	} {
		if got, err := json.Marshal(test.value); err != nil || string(got) != test.want {
			t.Errorf("%+v: got %s (%v), want %s", test.value, got, err, test.want)
		}
	}
}
