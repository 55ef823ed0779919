package kinds_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/feedctl/feedctl/jobs/kinds"
)

// TestDocs reads the job files in docs/jobs.md.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/jobs.md")
	if err != nil {
		t.Fatal(err)
	}
	files := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(text, -1)
	if len(files) == 0 {
		t.Fatal("docs/jobs.md has no job files")
	}
	for _, file := range files {
		name := filepath.Join(t.TempDir(), "jobs.yaml")
		if err := os.WriteFile(name, file[1], 0o600); err != nil {
			t.Fatal(err)
		}
		documents, err := kinds.All().ReadFiles(name)
		if err != nil || len(documents) == 0 {
			t.Errorf("%d documents, %v", len(documents), err)
		}
	}
}
