package restore_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/couchtest"
	"github.com/feedctl/feedctl/restore"
	sinkcouchdb "github.com/feedctl/feedctl/sink/couchdb"
)

// related writes a document with the parts that follow it as multipart/related.
func related(doc string, parts ...string) (contentType, body string) {
	var b strings.Builder
	fmt.Fprintf(&b, "--b\r\nContent-Type: application/json\r\n\r\n%s", doc)
	for _, part := range parts {
		fmt.Fprintf(&b, "\r\n--b\r\n\r\n%s", part)
	}
	b.WriteString("\r\n--b--")
	return `multipart/related; boundary="b"`, b.String()
}

func zipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	return b.String()
}

// TestReadLeaf: the sum of a document depends on everything in it, but not on how it is sent.
func TestReadLeaf(t *testing.T) {
	const revs = `"_id":"a","_rev":"2-y","_revisions":{"start":2,"ids":["y","x"]}`
	read := func(contentType, body string) string {
		t.Helper()
		leaf, err := restore.ReadLeaf(contentType, strings.NewReader(body))
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if leaf.ID != "a" || leaf.Rev != "2-y" {
			t.Errorf("leaf %+v", leaf)
		}
		return leaf.Sum
	}
	inline := func(members string) string { return read("application/json", "{"+revs+members+"}") }
	want := inline(`,"n":1,"o":{"b":2,"a":1},"_attachments":{"f":{"content_type":"text/plain","data":"b25l"},"g":{"content_type":"text/plain","data":"dHdv"}}`)
	const follow = `"f":{"content_type":"text/plain","follows":true,"length":3},"g":{"content_type":"text/plain","follows":true,"length":3}`
	for name, sum := range map[string]string{
		"other order": inline(`, "o": {"a":1, "b":2}, "_attachments":{"g":{"content_type":"text/plain","data":"dHdv","revpos":2},"f":{"content_type":"text/plain","data":"b25l"}}, "n":1`),
		"multipart":   read(related(`{`+revs+`,"n":1,"o":{"b":2,"a":1},"_attachments":{`+follow+`}}`, "one", "two")),
		"parts in the order of their stubs": read(related(`{`+revs+`,"n":1,"o":{"b":2,"a":1},"_attachments":{`+
			`"g":{"content_type":"text/plain","follows":true},"f":{"content_type":"text/plain","follows":true}}}`, "two", "one")),
		"compressed": read(related(`{`+revs+`,"n":1,"o":{"b":2,"a":1},"_attachments":{`+
			`"f":{"content_type":"text/plain","follows":true,"encoding":"gzip"},"g":{"content_type":"text/plain","follows":true}}}`, zipped("one"), "two")),
	} {
		if sum != want {
			t.Errorf("%s: the sum differs", name)
		}
	}
	for name, sum := range map[string]string{
		"value":           inline(`,"n":2,"o":{"b":2,"a":1},"_attachments":{"f":{"content_type":"text/plain","data":"b25l"},"g":{"content_type":"text/plain","data":"dHdv"}}`),
		"tombstone":       inline(`,"_deleted":true,"n":1,"o":{"b":2,"a":1},"_attachments":{"f":{"content_type":"text/plain","data":"b25l"},"g":{"content_type":"text/plain","data":"dHdv"}}`),
		"type":            inline(`,"n":1,"o":{"b":2,"a":1},"_attachments":{"f":{"content_type":"text/html","data":"b25l"},"g":{"content_type":"text/plain","data":"dHdv"}}`),
		"bytes":           inline(`,"n":1,"o":{"b":2,"a":1},"_attachments":{"f":{"content_type":"text/plain","data":"b25m"},"g":{"content_type":"text/plain","data":"dHdv"}}`),
		"bytes in a part": read(related(`{`+revs+`,"n":1,"o":{"b":2,"a":1},"_attachments":{`+follow+`}}`, "one", "twx")),
		"missing file":    inline(`,"n":1,"o":{"b":2,"a":1},"_attachments":{"f":{"content_type":"text/plain","data":"b25l"}}`),
		"missing bytes":   inline(`,"n":1,"o":{"b":2,"a":1},"_attachments":{"f":{"content_type":"text/plain","stub":true},"g":{"content_type":"text/plain","data":"dHdv"}}`),
	} {
		if sum == want {
			t.Errorf("changed %s: the sum is the same", name)
		}
	}
	for name, body := range map[string]string{"no revisions": `{"_id":"a","_rev":"1-x"}`, "no document": `[]`, "cut off": `{"_id":`} {
		if _, err := restore.ReadLeaf("application/json", strings.NewReader(body)); err == nil || name == "no revisions" != errors.Is(err, restore.ErrNoRevisions) {
			t.Errorf("%s: %v", name, err)
		}
	}
	kind, body := related(`{` + revs + `,"_attachments":{` + follow + `}}`)
	if _, err := restore.ReadLeaf(kind, strings.NewReader(body)); err == nil {
		t.Error("a document was read although its parts are missing")
	}
}

// TestDatabaseNotNew: a database with documents is refused, even if all of them were deleted; a database with
// only the position of another consumer is not.
func TestDatabaseNotNew(t *testing.T) {
	h := newHistory(t)
	h.now = epoch
	if _, err := h.pages.Publish(t.Context(), &feed.Entity{Operation: feed.Put, ContentLocation: "a", ContentType: "application/json", Body: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	at := consumer.UntilTime(epoch.Add(time.Second))
	url := couchtest.NewDB(t)
	open := func(name string) *sinkcouchdb.Sink {
		to, err := sinkcouchdb.Open(t.Context(), couchdb.Config{URL: url, SpoolDir: t.TempDir()}, name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = to.Close() })
		return to
	}
	first, second := open("first"), open("second")
	if report, err := restore.Run(t.Context(), h.config(at, first)); err != nil || report.Entities != 1 {
		t.Errorf("into an empty database: %+v, %v", report, err)
	}
	if _, err := restore.Run(t.Context(), h.config(at, second)); !errors.Is(err, restore.ErrNotNew) {
		t.Errorf("into a database with a document: %v", err)
	}
	if _, err := restore.Check(t.Context(), h.config(at, nil), restore.Target{Documents: restore.Database{}}); !errors.Is(err, restore.ErrNoRevisions) {
		t.Errorf("check without revisions: %v", err)
	}
	if _, err := restore.Check(t.Context(), h.config(at, nil), restore.Target{}); !errors.Is(err, restore.ErrUnreadable) {
		t.Errorf("check of an unreadable sink: %v", err)
	}
}
