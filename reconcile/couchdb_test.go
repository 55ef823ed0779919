package reconcile_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/consumer"
	client "github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/digest"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/couchtest"
	"github.com/feedctl/feedctl/reconcile"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/couchdb"
)

// A couch is a world with a copy of its feed in CouchDB.
type couch struct {
	*world
	url  string // of the database
	sink *couchdb.Sink
}

// withCouch runs a test with PouchDB, which behaves like CouchDB, and with a fake CouchDB.
func withCouch(t *testing.T, test func(t *testing.T, w *couch)) {
	for name, newDB := range map[string]func(testing.TB) string{
		"PouchDB": couchtest.NewDB,
		"fake":    func(t testing.TB) string { return couchtest.NewFake(t).NewDB(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &couch{world: newWorld(t), url: newDB(t)}
			s, err := couchdb.Open(t.Context(), client.Config{URL: w.url}, "")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			w.sink = s
			test(t, w)
		})
	}
}

func (w *couch) consume() {
	w.t.Helper()
	job := consumer.Job{Client: w.client, URL: w.world.url, Sink: w.sink}
	if _, err := job.Run(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

func (w *couch) open(ctx context.Context) (reconcile.Contents, error) {
	return couchdb.OpenContents(ctx, client.Config{}, sink.Spec{Scheme: "couchdb", Path: w.url})
}

// edit changes a document as a user would.
func (w *couch) edit(id string, change func(doc map[string]any)) {
	w.t.Helper()
	var doc map[string]any
	path := w.url + "/" + client.DocPath(id)
	if err := json.Unmarshal([]byte(couchtest.Send(w.t, http.MethodGet, path, "")), &doc); err != nil {
		w.t.Fatal(err)
	}
	change(doc)
	text, err := json.Marshal(doc)
	if err != nil {
		w.t.Fatal(err)
	}
	couchtest.Send(w.t, http.MethodPut, path, string(text))
}

// replace changes the Content-ID and the content of a document.
func (w *couch) replace(id, contentID string) {
	w.edit(id, func(doc map[string]any) { doc["feedctl"].(map[string]any)["contentId"] = contentID; doc["n"] = -1 })
}

func (w *couch) remove(id string) { w.edit(id, func(doc map[string]any) { doc["_deleted"] = true }) }

func (w *couch) add(id, doc string) {
	couchtest.Send(w.t, http.MethodPut, w.url+"/"+client.DocPath(id), doc)
}

// reconcile runs a comparison and fails the test unless it finds exactly the lines in want.
func (w *couch) reconcile(c reconcile.Config, want ...string) *reconcile.Report {
	w.t.Helper()
	got := lines(&c)
	report, err := reconcile.Run(w.t.Context(), c)
	if err != nil || !slices.Equal(*got, want) {
		w.t.Fatalf("found %q, %v, want %q", *got, err, want)
	}
	return report
}

func (w *couch) config() reconcile.Config {
	d, _ := w.digest()
	c := w.world.config(d)
	c.Open = w.open
	return c
}

// odd holds keys that cannot be ids, and keys that servers might order differently.
var odd = []string{"_under", "\x00\xff odd/ä", "feedctl:x", "Zürich", "zurich", "\U0001f600", "\uffee", "a", "B", "10", "9", strings.Repeat("ä", 3000)}

// TestCouchDB: documents are compared by Content-ID, in whatever order the server returns them, and repaired.
// Documents of other clients are neither reported as extra nor touched.
func TestCouchDB(t *testing.T) {
	withCouch(t, func(t *testing.T, w *couch) {
		w.publish(1200)
		for _, key := range odd {
			w.send(w.put(key, "[1.50]"))
		}
		w.consume()
		c := w.config()
		if report := w.reconcile(c); report.Equal != 1212 || report.ByContentID != 1212 || report.Rows != 1212 || len(report.Remarks) < 2 {
			t.Errorf("%+v", report)
		}
		w.add("_design/d", `{"views":{}}`)
		w.add("foreign", `{"feedctl":"no object"}`)
		if report := w.reconcile(c); report.Rows != 1212 {
			t.Errorf("%+v", report)
		}
		w.replace(key(3), "<by-hand@example.com>")
		w.remove(key(5))
		w.remove("feedctl:_under")
		w.add("zzz", `{"feedctl":{"contentId":"<extra@example.com>"}}`)
		w.add("copy of a", `{"feedctl":{"contentId":"<a@example.com>","key":"a"}}`) // not the document of this key
		want := []string{"+ _under", "* " + key(3), "+ " + key(5), "- zzz"}
		slices.SortFunc(want, func(a, b string) int { return strings.Compare(a[2:], b[2:]) })
		w.reconcile(c, want...)
		c.Sink = w.sink
		if report := w.reconcile(c, want...); report.Remaining() != 0 || report.Repair.Written != 3 || report.Repair.Deleted != 1 {
			t.Errorf("%+v", report.Repair)
		}
		c.Sink = nil
		w.reconcile(c)
		w.edit(key(3), func(doc map[string]any) {
			if doc["n"] != 3.0 {
				t.Errorf("repaired to %v", doc)
			}
		})
		for _, id := range []string{"_design/d", "foreign", "copy%20of%20a"} {
			couchtest.Send(t, http.MethodGet, w.url+"/"+id, "")
		}
		w.consume() // at the position that the repair left
	})
}

// TestCouchDBAhead: entities after the position of the digest are taken into account, and a sink that is
// behind is not compared.
func TestCouchDBAhead(t *testing.T) {
	withCouch(t, func(t *testing.T, w *couch) {
		w.publish(20)
		w.consume()
		c := w.config()
		w.send(w.put(key(1), `{"n":"new"}`), w.world.remove(key(2)), patchOf(key(3)), w.put("other", "{}"))
		w.consume()
		if report := w.reconcile(c); report.Between != 4 || report.Equal != 20 {
			t.Errorf("%+v", report)
		}
		w.replace(key(1), "<old@example.com>")
		w.add(key(2), `{"feedctl":{"contentId":"<old@example.com>"}}`)
		w.reconcile(c, "* "+key(1), "- "+key(2))
		w.send(w.put("later", "{}"))
		if _, err := reconcile.Run(t.Context(), w.config()); !errors.Is(err, reconcile.ErrBehind) {
			t.Errorf("%v, want ErrBehind", err)
		}
	})
}

// TestCouchDBChangedMeanwhile: a document that someone else changes after the comparison is left alone, and
// the other documents of the batch are written.
func TestCouchDBChangedMeanwhile(t *testing.T) {
	large := `{"s":"` + strings.Repeat("x", 300<<10) + `"}` // written alone
	withCouch(t, func(t *testing.T, w *couch) {
		w.publish(10)
		w.send(w.put("large 1", large), w.put("large 2", large), w.put("large 3", large))
		w.consume()
		c := w.config()
		for _, id := range []string{key(1), key(2), "large 1", "large 2"} {
			w.replace(id, "<old@example.com>")
		}
		w.remove(key(3))
		w.remove(key(4))
		w.remove("large 3")
		w.add("extra 1", `{"feedctl":{"contentId":"<1@example.com>"}}`)
		w.add("extra 2", `{"feedctl":{"contentId":"<2@example.com>"}}`)
		c.Sink = &meddler{w.sink, func() {
			for _, id := range []string{key(1), "large 1", "extra 1"} {
				w.edit(id, func(doc map[string]any) { doc["by"] = "hand" })
			}
			w.add(key(3), `{"by":"hand"}`)
			w.add("large 3", `{"by":"hand"}`)
		}}
		got := lines(&c)
		report, err := reconcile.Run(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		left := (*got)[9:]
		slices.Sort(left)
		if want := []string{"! extra 1", "! " + key(1), "! " + key(3), "! large 1", "! large 3"}; !slices.Equal(left, want) {
			t.Errorf("left alone: %q, want %q", left, want)
		}
		if r := report.Repair; r.Written != 3 || r.Deleted != 1 || r.Changed != 5 || report.Remaining() != 5 {
			t.Errorf("%+v", r)
		}
		for _, id := range []string{key(1), key(3), "large 1", "large 3", "extra 1"} {
			w.edit(id, func(doc map[string]any) {
				if doc["by"] != "hand" {
					t.Errorf("document %q was overwritten: %.200v", id, doc)
				}
			})
		}
	})
}

// TestCouchDBBusy: what a consumer writes while the documents are being read is noticed, even if the
// consumer has not completed the commit.
func TestCouchDBBusy(t *testing.T) {
	withCouch(t, func(t *testing.T, w *couch) {
		w.publish(700)
		w.consume()
		c := w.config()
		contents, err := w.open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer contents.Close()
		n := 0
		for _, err = range contents.Rows(t.Context(), "", "") {
			if n++; n == 100 {
				w.send(w.put(key(650), `{}`))
				w.consume()
			}
		}
		if !errors.Is(err, couchdb.ErrChanged) {
			t.Errorf("%v, want ErrChanged", err)
		}
		w.reconcile(c)
		checkpoint := "_local/feedctl-sink-feedctl"
		var doc map[string]any
		if err := json.Unmarshal([]byte(couchtest.Send(t, http.MethodGet, w.url+"/"+checkpoint, "")), &doc); err != nil {
			t.Fatal(err)
		}
		doc["pending"] = map[string]any{"step": "s", "position": map[string]any{}, "parts": 1}
		text, _ := json.Marshal(doc)
		couchtest.Send(t, http.MethodPut, w.url+"/"+checkpoint, string(text))
		if _, err := w.open(t.Context()); !errors.Is(err, couchdb.ErrChanged) {
			t.Errorf("%v, want ErrChanged", err)
		}
	})
}

// TestCouchDBRevisions: documents with the revisions of their source cannot be compared, and are not
// reported as missing.
func TestCouchDBRevisions(t *testing.T) {
	withCouch(t, func(t *testing.T, w *couch) {
		w.send(&feed.Entity{
			Operation: feed.Put, ContentLocation: "doc", ContentType: "application/json", Header: []feed.Field{{Name: "ETag", Value: `"1-aa"`}},
			Body: []byte(`{"_id":"doc","_rev":"1-aa","_revisions":{"start":1,"ids":["aa"]}}`),
		})
		w.consume()
		if _, err := reconcile.Run(t.Context(), w.config()); !errors.Is(err, couchdb.ErrRevisions) {
			t.Errorf("%v, want ErrRevisions", err)
		}
	})
}

// TestCouchDBLies: a repair changes nothing if the digest is damaged.
func TestCouchDBLies(t *testing.T) {
	withCouch(t, func(t *testing.T, w *couch) {
		w.publish(2000)
		w.consume()
		w.add("zzz", `{"feedctl":{"contentId":"<extra@example.com>"}}`)
		d, read := w.digest()
		leaves, err := d.Leaves(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		flip := func(b []byte) ([]byte, error) { b = bytes.Clone(b); b[len(b)/2] ^= 1; return b, nil }
		c := w.world.config(&digest.Reader{Root: d.Root, Objects: &liar{read, leaves[len(leaves)-1].Object, flip}})
		c.Open, c.Sink = w.open, w.sink
		if _, err := reconcile.Run(t.Context(), c); !errors.Is(err, digest.ErrInvalid) {
			t.Errorf("%v, want ErrInvalid", err)
		}
		c.Sink, c.Digest = nil, d
		w.reconcile(c, "- zzz")
	})
}
