package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// TestOptionalInterfaces: optional interfaces of a store are found with storage.As, which
// unwraps stores, and not by a type assertion.
func TestOptionalInterfaces(t *testing.T) {
	for path, file := range sources(t) {
		if strings.HasPrefix(path, "storage/") {
			continue
		}
		for _, place := range storageAssertions(file.set, file.syntax) {
			t.Errorf("%s is a type assertion on an interface of package storage: use storage.As", place)
		}
	}
}

// TestNoMadeUpOrigin: stores are read through feedstore, and not through a made-up URL.
func TestNoMadeUpOrigin(t *testing.T) {
	const origin = "store.invalid"
	for path, file := range sources(t) {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		ast.Inspect(file.syntax, func(n ast.Node) bool {
			if text, ok := n.(*ast.BasicLit); ok && strings.Contains(text.Value, origin) {
				t.Errorf("%s has a URL with the host %s", file.set.Position(n.Pos()), origin)
			}
			return true
		})
	}
}

// TestOneDialer: connections are opened by internal/tcp, which detects a dead peer.
func TestOneDialer(t *testing.T) {
	for path, file := range sources(t) {
		if strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "internal/") || strings.HasPrefix(path, "bench/") {
			continue
		}
		ast.Inspect(file.syntax, func(n ast.Node) bool {
			if literal, ok := n.(*ast.CompositeLit); ok {
				if s, ok := literal.Type.(*ast.SelectorExpr); ok && s.Sel.Name == "Dialer" {
					t.Errorf("%s is a dialer: use internal/tcp", file.set.Position(n.Pos()))
				}
			}
			return true
		})
	}
}

// TestOneTokenizer: JSON is split into tokens by internal/jsonscan or encoding/json. A tokenizer is
// recognized by its character constants: a quote, a backslash and a closing brace or bracket.
// internal/couchtest is exempt, since its fake, which writes JSON as CouchDB does, has them, too.
func TestOneTokenizer(t *testing.T) {
	for path, file := range sources(t) {
		if strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "internal/jsonscan/") || strings.HasPrefix(path, "internal/couchtest/") {
			continue
		}
		characters := make(map[string]bool)
		ast.Inspect(file.syntax, func(n ast.Node) bool {
			if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.CHAR {
				characters[literal.Value] = true
			}
			return true
		})
		if characters[`'"'`] && characters[`'\\'`] && (characters[`'}'`] || characters[`']'`]) {
			t.Errorf("%s parses JSON on its own: use internal/jsonscan", path)
		}
	}
}

// TestFileSize: files are short, so that each holds one idea.
func TestFileSize(t *testing.T) {
	const limit = 500 // lines
	for path, file := range sources(t) {
		if n := file.set.File(file.syntax.Pos()).LineCount(); n > limit {
			t.Errorf("%s has %d lines, more than %d: split it", path, n, limit)
		}
	}
}

// A source is a Go file.
type source struct {
	set    *token.FileSet
	syntax *ast.File
}

// sources returns the Go files of the module, including tests, by path.
func sources(t *testing.T) map[string]source {
	t.Helper()
	root, files := filepath.Join("..", ".."), make(map[string]source)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go"):
			return nil
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		set := token.NewFileSet()
		syntax, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		files[filepath.ToSlash(name)] = source{set, syntax}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
