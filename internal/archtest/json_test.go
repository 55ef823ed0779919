package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// foreignJSON holds the files and directories that may use underscores in JSON names, with the
// names that they may use; "*" allows any name.
var foreignJSON = map[string][]string{
	"bench":                {"*"},                             // not part of the program
	"internal/couchtest":   {"*"},                             // CouchDB's protocol
	"internal/kintotest":   {"*"},                             // Kinto's protocol
	"internal/couchdiff":   {"*"},                             // CouchDB's protocol
	"couchdb":              {"*"},                             // CouchDB's protocol
	"bridge/couchdb":       {"*"},                             // CouchDB's protocol
	"sink/couchdb":         {"*"},                             // CouchDB's protocol
	"kinto":                {"*"},                             // Kinto's API
	"sink/kinto":           {"*"},                             // Kinto's API
	"jobs/api/couchdb.go":  {"*"},                             // CouchDB's protocol
	"restore/leaf.go":      {"*"},                             // CouchDB's protocol
	"storage/file/meta.go": {"content_type", "cache_control"}, // state of a store
	"internal/schema":      {"min_read", "min_write"},         // columns of a table
	"sink/dir/batch.go":    {"content_type"},                  // files of earlier versions
	"sink/dir/contents.go": {"content_type", "content_id"},    // files of earlier versions
}

// jsonNames matches the names of members in struct tags and in JSON text.
var jsonNames = regexp.MustCompile(`json:"([^",]*)|"([A-Za-z0-9_]+)":`)

// TestJSONNames: all JSON names are in camelCase, like those of the specification's
// snapshot index.
func TestJSONNames(t *testing.T) {
	const root = "../.."
	seen := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name := filepath.ToSlash(strings.TrimPrefix(path, root+string(filepath.Separator)))
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && path != root):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			literal, ok := n.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range jsonNames.FindAllStringSubmatch(text, -1) {
				seen++
				if member := match[1] + match[2]; strings.Contains(member, "_") && !foreign(name, member) {
					t.Errorf("%s: JSON with a member %q: want camelCase", name, member)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 300 {
		t.Errorf("found only %d names", seen)
	}
}

func foreign(file, member string) bool {
	for at, members := range foreignJSON {
		if (file == at || strings.HasPrefix(file, at+"/")) && (slices.Contains(members, member) || members[0] == "*") {
			return true
		}
	}
	return false
}
