package couchdb_test

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/internal/couchtest"
)

// A leaf holds the contents of a Doc, with its attachments by name.
type leaf struct {
	ID, Rev     string
	Deleted     bool
	Err         string
	Fields      string            // JSON without members that begin with "_"
	Revisions   string            // JSON
	Attachments map[string]string // contents; nil: none
}

// leaves reads all documents.
func leaves(t *testing.T, docs func(func(*couchdb.Doc, error) bool)) (all []leaf) {
	t.Helper()
	for d, err := range docs {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, readLeaf(t, d))
	}
	return all
}

func readLeaf(t *testing.T, d *couchdb.Doc) leaf {
	t.Helper()
	l := leaf{ID: d.ID, Rev: d.Rev, Deleted: d.Deleted}
	if d.Err != nil {
		var e *couchdb.Error
		if !errors.As(d.Err, &e) {
			t.Fatalf("%v is not an *Error", d.Err)
		}
		l.Err = fmt.Sprint(e.Status)
		return l
	}
	content := d.Stream
	if content == nil {
		content = d.Body.Reader()
		defer d.Body.Close()
	}
	kind, params, err := mime.ParseMediaType(d.ContentType)
	if err != nil {
		t.Fatal(err)
	}
	doc := content
	var parts *multipart.Reader
	if kind == "multipart/related" {
		parts = multipart.NewReader(content, params["boundary"])
		if doc, err = parts.NextRawPart(); err != nil {
			t.Fatal(err)
		}
	}
	var members map[string]json.RawMessage
	if err := json.NewDecoder(doc).Decode(&members); err != nil {
		t.Fatal(err)
	}
	var stubs map[string]struct {
		Data []byte `json:"data"`
	}
	if text := members["_attachments"]; text != nil {
		if err := json.Unmarshal(text, &stubs); err != nil {
			t.Fatal(err)
		}
		l.Attachments = make(map[string]string)
	}
	if (stubs != nil) != d.HasAttachments {
		t.Errorf("%s: HasAttachments is %v", d.ID, d.HasAttachments)
	}
	for name, a := range stubs {
		l.Attachments[name] = string(a.Data)
	}
	for parts != nil {
		part, err := parts.NextRawPart()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(part)
		if err != nil {
			t.Fatal(err)
		}
		l.Attachments[part.FileName()] = string(data)
	}
	l.Revisions = string(members["_revisions"])
	maps.DeleteFunc(members, func(name string, _ json.RawMessage) bool { return strings.HasPrefix(name, "_") })
	text, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	l.Fields = string(text)
	return l
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func openURL(t *testing.T, url string) *couchdb.DB {
	t.Helper()
	db, err := couchdb.Open(couchdb.Config{URL: url, MaxWhole: 1 << 10, SpoolDir: t.TempDir(), Attempts: 2})
	must(t, err)
	return db
}

// eachServer runs a test with the fake, which behaves like CouchDB, and with a real server, which
// may be PouchDB's engine. PouchDB reads numbers like JavaScript, has no multipart responses, and
// compares the revisions of _local documents.
func eachServer(t *testing.T, test func(t *testing.T, db *couchdb.DB, pouch bool)) {
	t.Run("fake", func(t *testing.T) { test(t, openURL(t, couchtest.NewFake(t).NewDB(t)), false) })
	t.Run("server", func(t *testing.T) { test(t, openURL(t, couchtest.NewDB(t)), couchtest.IsPouchDB(t)) })
}

// store writes documents with their own revisions, as a replicator does.
func store(t *testing.T, db *couchdb.DB, docs ...string) {
	t.Helper()
	var raw [][]byte
	for _, doc := range docs {
		raw = append(raw, []byte(doc))
	}
	results, err := db.BulkDocs(t.Context(), raw, false)
	must(t, err)
	for _, r := range results {
		must(t, r.Err)
	}
}

var large = func() string {
	b := make([]byte, 400<<10)
	_, _ = rand.Read(b)
	return string(b)
}()

// sample stores documents of all kinds and returns the expected leaves.
func sample(t *testing.T, db *couchdb.DB) map[string]leaf {
	t.Helper()
	attached := func(text string) string {
		return `{"f":{"content_type":"application/octet-stream","data":"` + base64.StdEncoding.EncodeToString([]byte(text)) + `"}}`
	}
	long := `"` + strings.Repeat("long ", 1000) + `"`
	want := map[string]leaf{
		"1-a": {ID: "plain", Fields: `{"big":123456789012345678901234567890,"n":1}`, Revisions: `{"start":1,"ids":["a"]}`},
		"2-c": {ID: "conf", Fields: `{"v":"right"}`, Revisions: `{"start":2,"ids":["c","a"]}`},
		"2-b": {ID: "conf", Fields: `{"v":"left"}`, Revisions: `{"start":2,"ids":["b","a"]}`},
		"3-d": {ID: "conf", Fields: `{"why":"gone"}`, Revisions: `{"start":3,"ids":["d","e","a"]}`, Deleted: true},
		"1-l": {ID: "long", Fields: `{"text":` + long + `}`, Revisions: `{"start":1,"ids":["l"]}`},
		"1-s": {ID: "small", Fields: `{}`, Revisions: `{"start":1,"ids":["s"]}`, Attachments: map[string]string{"f": "\x00--\r\nsmall"}},
		"1-g": {ID: "large/ä+", Fields: `{"text":` + long + `}`, Revisions: `{"start":1,"ids":["g"]}`, Attachments: map[string]string{"f": large}},
	}
	for rev, l := range want {
		l.Rev = rev
		want[rev] = l
		members := strings.TrimPrefix(l.Fields, "{")
		if members != "}" {
			members = "," + members
		}
		if l.Deleted {
			members = `,"_deleted":true` + members
		}
		if l.Attachments != nil {
			members = `,"_attachments":` + attached(l.Attachments["f"]) + members
		}
		store(t, db, fmt.Sprintf(`{"_id":%q,"_rev":%q,"_revisions":%s%s`, l.ID, rev, l.Revisions, members))
	}
	return want
}
