package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A source says when it waits for its input. Files are there.
func TestSourceTells(t *testing.T) {
	name := filepath.Join(t.TempDir(), "in")
	if err := os.WriteFile(name, []byte("1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := inputFlags{format: "ndjson"}
	for _, c := range []struct {
		name string
		want []bool
	}{{name, []bool{true}}, {"-", []bool{false, true, false, true}}} {
		src, err := f.open(t.Context(), slog.New(slog.DiscardHandler), strings.NewReader("1\n"), c.name)
		if err != nil {
			t.Fatal(err)
		}
		var got []bool
		src.tell(func(busy bool) { got = append(got, busy) })
		for _, err := range src.entities {
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := src.close(); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: told %v, want %v; %v", c.name, got, c.want, err)
		}
	}
}
