package couchdiff_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/couchdiff"
	"github.com/feedctl/feedctl/internal/couchtest"
)

// docs holds the documents of both databases, with their revisions.
var docs = []string{
	`{"_id":"plain","_rev":"1-aa","n":1,"list":[1,2],"o":{"x":"y","z":null}}`,
	`{"_id":"grown","_rev":"3-cc","_revisions":{"start":3,"ids":["cc","bb","aa"]},"v":3}`,
	`{"_id":"conflict","_rev":"2-bb","_revisions":{"start":2,"ids":["bb","aa"]},"v":"b"}`,
	`{"_id":"conflict","_rev":"2-cc","_revisions":{"start":2,"ids":["cc","aa"]},"v":"c"}`,
	`{"_id":"conflict","_rev":"3-dd","_revisions":{"start":3,"ids":["dd","ee","aa"]},"_deleted":true}`,
	`{"_id":"gone","_rev":"2-bb","_revisions":{"start":2,"ids":["bb","aa"]},"_deleted":true,"why":"old"}`,
	`{"_id":"_design/d","_rev":"1-aa","views":{}}`,
	`{"_id":"an id/with ü & more?","_rev":"1-aa"}`,
	`{"_id":"attached","_rev":"1-aa","_attachments":{"a/b c":{"content_type":"text/plain","revpos":1,"data":"aGVsbG8="}}}`,
}

// changes holds changes that are made in the second database: an old text, a new text that replaces
// it, and the expected difference.
var changes = []struct{ name, old, new, want string }{
	{"missing document", docs[0], ``, `document "plain" is only in the first`},
	{"missing tombstone", docs[5], ``, `document "gone" is only in the first`},
	{"value", `"list":[1,2]`, `"list":[2,1]`, `leaf 1-aa of document "plain": member list`},
	{"type", `"n":1`, `"n":"1"`, `leaf 1-aa of document "plain": member n`},
	{"missing member", `"n":1,`, ``, `leaf 1-aa of document "plain": member n`},
	{"nested", `"x":"y"`, `"x":"z"`, `leaf 1-aa of document "plain": member o`},
	{"further member", `"n":1`, `"n":1,"m":2`, `leaf 1-aa of document "plain": member m`},
	{"ancestors", `"ids":["cc","bb","aa"]`, `"ids":["cc","b0","aa"]`, `leaf 3-cc of document "grown": member _revisions`},
	{"fewer ancestors", `"ids":["cc","bb","aa"]`, `"ids":["cc"]`, `leaf 3-cc of document "grown": member _revisions`},
	{"revision", `"_rev":"1-aa","n"`, `"_rev":"1-ab","n"`, `leaf 1-aa of document "plain" is only in the first`},
	{"lost conflict", docs[3], ``, `leaf 2-cc of document "conflict" is only in the first`},
	{"lost deleted conflict", docs[4], ``, `leaf 3-dd of document "conflict" is only in the first`},
	{"conflict is not deleted", `"dd","ee","aa"]},"_deleted":true`, `"dd","ee","aa"]}`, `leaf 3-dd of document "conflict": member _deleted`},
	{"loser's value", `"v":"b"`, `"v":"B"`, `leaf 2-bb of document "conflict": member v`},
	{"tombstone's body", `"why":"old"`, `"why":"new"`, `leaf 2-bb of document "gone": member why`},
	{"attachment's bytes", `aGVsbG8=`, `aGVsbE8=`, `attachment "a/b c" of leaf 1-aa of document "attached" has other bytes`},
	{"attachment's type", `text/plain`, `text/html`, `attachment "a/b c" of leaf 1-aa of document "attached" is {contentType:text/plain`},
	{"attachment's name", `a/b c`, `a/b_c`, `attachment "a/b c" of leaf 1-aa of document "attached" is only in the first`},
	{"lost attachment", docs[8], `{"_id":"attached","_rev":"1-aa"}`, `attachment "a/b c" of leaf 1-aa of document "attached" is only in the first`},
	{"design document", `"views":{}`, `"views":{"v":{"map":"function (doc) {}"}}`, `leaf 1-aa of document "_design/d": member views`},
	{"name", `?","_rev":"1-aa"}`, `!","_rev":"1-aa"}`, `document "an id/with ü & more?" is only in the first`},
}

func TestEqual(t *testing.T) {
	fake := couchtest.NewFake(t)
	for _, newDB := range []func(testing.TB) string{couchtest.NewDB, fake.NewDB} {
		a, b := newDB(t), newDB(t)
		check(t, a, b)
		fill(t, a, docs)
		fill(t, b, docs[5:])
		fill(t, b, docs[:5]) // so that the order of changes differs
		put(t, b+"/_local/x", `{"x":1}`)
		check(t, a, b)
	}
}

func TestFinds(t *testing.T) {
	a := couchtest.NewDB(t)
	fill(t, a, docs)
	for _, c := range changes {
		t.Run(c.name, func(t *testing.T) {
			changed := strings.Split(strings.Replace(strings.Join(docs, "\n"), c.old, c.new, 1), "\n")
			b := couchtest.NewDB(t)
			fill(t, b, changed)
			for _, order := range [][2]string{{a, b}, {b, a}} {
				differences, err := couchdiff.Compare(t.Context(), order[0], order[1])
				if err != nil {
					t.Fatal(err)
				}
				want := c.want
				if order[0] == b {
					want = strings.Replace(want, "in the first", "in the second", 1)
					want, _, _ = strings.Cut(want, " is {")
				}
				if len(differences) == 0 || !strings.Contains(strings.Join(differences, "\n"), want) {
					t.Errorf("differences are %q, want %q", differences, want)
				}
			}
		})
	}
}

func TestErrors(t *testing.T) {
	a := couchtest.NewDB(t)
	if _, err := couchdiff.Compare(t.Context(), a, a+"-is-not-there"); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("missing database: %v", err)
	}
}

func check(t *testing.T, a, b string) {
	t.Helper()
	differences, err := couchdiff.Compare(t.Context(), a, b)
	if err != nil {
		t.Fatal(err)
	}
	if len(differences) > 0 {
		t.Errorf("equal databases differ:\n%s", strings.Join(differences, "\n"))
	}
}

// fill writes documents with the revisions that they have.
func fill(t *testing.T, db string, docs []string) {
	t.Helper()
	var all []string
	for _, d := range docs {
		if d != "" {
			all = append(all, d)
		}
	}
	answer := couchtest.Send(t, http.MethodPost, db+"/_bulk_docs", fmt.Sprintf(`{"new_edits":false,"docs":[%s]}`, strings.Join(all, ",")))
	if strings.TrimSpace(answer) != "[]" {
		t.Fatalf("some documents were not stored: %s", answer)
	}
}

func put(t *testing.T, url, doc string) {
	t.Helper()
	couchtest.Send(t, http.MethodPut, url, doc)
}
