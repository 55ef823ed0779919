package api

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/jobs"
)

// TestDocumentation: the package documentation lists all resources and problems in the code, and no
// others.
func TestDocumentation(t *testing.T) {
	t.Parallel()
	docs, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	inDocs := map[string]bool{}
	for _, match := range regexp.MustCompile(`(?m)^//\t([A-Z]+) +(/\S*)`).FindAllStringSubmatch(string(docs), -1) {
		inDocs[match[1]+" "+strings.NewReplacer("NS", "{namespace}", "NAME", "{name}").Replace(match[2])] = true
	}
	for _, match := range regexp.MustCompile(`(?m)^//\t([a-z-]+) +[45]\d\d  `).FindAllStringSubmatch(string(docs), -1) {
		inDocs[match[1]] = true
	}
	inCode := map[string]bool{}
	a, err := New(new(jobs.Scheduler), Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range a.table() {
		for method := range r.operations {
			inCode[method+" "+r.pattern] = true
		}
	}
	for _, pattern := range []string{"*.go", "../../internal/access/*.go", "../../internal/jobsready/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range regexp.MustCompile(`\bhttp\.Status\w+, "([a-z-]+)"`).FindAllStringSubmatch(string(source), -1) {
				inCode[match[1]] = true
			}
		}
	}
	for name := range inCode {
		if !inDocs[name] {
			t.Errorf("%s is not documented", name)
		}
	}
	for name := range inDocs {
		if !inCode[name] {
			t.Errorf("%s is documented, but not in the code", name)
		}
	}
}
