package bridge_test

import (
	"testing"

	"github.com/feedctl/feedctl/bridge"
)

// TestSourceOf reads checkpoints of bridges and of other producers.
func TestSourceOf(t *testing.T) {
	t.Parallel()
	for checkpoint, want := range map[string][2]string{
		"":                               {},
		"4711":                           {},
		`{"since":"3"}`:                  {},
		`{"source":"https://a.example"}`: {},
		`{"bridge":"couchdb","source":"https://db.example/zones","since":"3"}`: {"couchdb", "https://db.example/zones"},
	} {
		if kind, url := bridge.SourceOf([]byte(checkpoint)); kind != want[0] || url != want[1] {
			t.Errorf("%s is from %q %q, want %q", checkpoint, kind, url, want)
		}
	}
}
