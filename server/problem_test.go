package server

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestProblemsAreDocumented: the package documentation lists the types of problems in the code, and no others.
func TestProblemsAreDocumented(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	allows, err := filepath.Glob("../internal/access/*.go")
	if err != nil {
		t.Fatal(err)
	}
	sends, err := filepath.Glob("../internal/represent/*.go")
	if err != nil {
		t.Fatal(err)
	}
	files = slices.Concat(files, allows, sends)
	named := regexp.MustCompile(`\bhttp\.Status\w+, "([a-z-]+)"`)
	listed := regexp.MustCompile(`(?m)^//\t([a-z-]+) +[45]\d\d  `)
	inCode, inDocs := map[string]bool{}, map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range named.FindAllStringSubmatch(string(source), -1) {
			inCode[match[1]] = true
		}
		if file != "doc.go" {
			continue
		}
		for _, match := range listed.FindAllStringSubmatch(string(source), -1) {
			inDocs[match[1]] = true
		}
	}
	for name := range inCode {
		if !inDocs[name] {
			t.Errorf("problem %s is not documented", name)
		}
	}
	for name := range inDocs {
		if !inCode[name] {
			t.Errorf("problem %s is documented, but not in the code", name)
		}
	}
}
