package archtest

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// notPublic matches packages that no other module imports.
var notPublic = []string{"bench", "cmd/...", "e2e/...", "examples/...", "interop", "interop/clients"}

// notRun holds packages whose examples are only compiled, since they need a test or a server.
var notRun = []string{
	"bridge/couchdb", "bridge/kinto", "outbox", "sink/couchdb", "sink/kinto", "sink/pgxsink", "sink/postgres", "sink/sinktest", "storage/postgres", "storage/s3", "storage/storagetest",
}

// TestExamples requires an example for each public package, with an output comment if it can be
// run.
func TestExamples(t *testing.T) {
	for importPath := range list(t) {
		name, ok := own(importPath)
		if !ok || fitsAny(notPublic, name) || slices.Contains(strings.Split(name, "/"), "internal") {
			continue
		}
		paths, err := filepath.Glob(filepath.Join("../..", name, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		var files []*ast.File
		for _, path := range paths {
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, file)
		}
		examples := doc.Examples(files...)
		runs := func(e *doc.Example) bool { return e.Output != "" }
		if len(examples) == 0 {
			t.Errorf("package %s has no example", name)
		} else if slices.ContainsFunc(examples, runs) == slices.Contains(notRun, name) {
			t.Errorf("package %s: an example should run, or the package should be in notRun, but not both", name)
		}
	}
}
