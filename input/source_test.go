package input

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestSourceReportsWaiting: a source reports when it waits for input. It never waits for files.
func TestSourceReportsWaiting(t *testing.T) {
	name := filepath.Join(t.TempDir(), "in")
	if err := os.WriteFile(name, []byte("1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := Config{Format: FormatNDJSON}
	for _, test := range []struct {
		name string
		want []bool
	}{{name, []bool{true}}, {"", []bool{false, true, false, true}}} {
		src, err := c.Stream(t.Context(), strings.NewReader("1\n"), "stream")
		if test.name != "" {
			src, err = c.Open(t.Context(), test.name)
		}
		if err != nil {
			t.Fatal(err)
		}
		var got []bool
		src.Tell(func(busy bool) { got = append(got, busy) })
		for _, err := range src.Entities {
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := src.Close(); err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%s: told %v, want %v; %v", test.name, got, test.want, err)
		}
	}
}
