//go:build unix

package file

import (
	"fmt"
	"os"
	"testing"

	"github.com/feedctl/feedctl/storage"
)

// TestBatches lists a directory with more names than fit into a batch.
func TestBatches(t *testing.T) {
	s, err := New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	const n = 2*listBatch + 5000
	source := ""
	for i := range n {
		path := s.metaPath(fmt.Sprintf("d/%06d", i))
		if i%50_000 == 0 { // a file can have at most 65,000 links
			if _, err := s.Create(t.Context(), fmt.Sprintf("d/%06d", i), storage.Meta{}, storage.Bytes()); err != nil {
				t.Fatal(err)
			}
			source = path
		} else if err := os.Link(source, path); err != nil {
			t.Fatal(err)
		}
	}
	l := &lister{store: s, ctx: t.Context(), prefix: "d/0", after: "d/000099"}
	next, last := 100, ""
	for next < n {
		names, err := l.batch("d/", last)
		if err != nil || len(names) == 0 || len(names) > listBatch {
			t.Fatalf("after %s: batch of %d names, error %v", last, len(names), err)
		}
		for _, name := range names {
			if want := fmt.Sprintf("%06d", next); name != want {
				t.Fatalf("got %s, want %s", name, want)
			}
			last = name
			next++
		}
	}
	if names, err := l.batch("d/", last); len(names) > 0 || err != nil {
		t.Errorf("after the last name: %q, error %v", names, err)
	}
}
