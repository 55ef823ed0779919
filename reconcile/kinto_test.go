package reconcile_test

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/kintotest"
	client "github.com/feedctl/feedctl/kinto"
	"github.com/feedctl/feedctl/reconcile"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/kinto"
)

// A collection is a world with a copy of its feed in Kinto.
type collection struct {
	*world
	url  string
	sink *kinto.Sink
}

// withKinto runs a test with Kinto, and with a fake Kinto.
func withKinto(t *testing.T, test func(t *testing.T, w *collection)) {
	for name, newCollection := range map[string]func(testing.TB) string{
		"Kinto": func(t testing.TB) string { return kintotest.Start(t, kintotest.PostgreSQL).NewCollection(t) },
		"fake":  func(t testing.TB) string { return kintotest.NewFake(t).NewCollection(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &collection{world: newWorld(t), url: newCollection(t)}
			s, err := kinto.Open(t.Context(), w.server(), "")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			w.sink = s
			test(t, w)
		})
	}
}

func (w *collection) server() client.Config { return client.Config{URL: w.url} }

func (w *collection) consume() {
	w.t.Helper()
	job := consumer.Job{Client: w.world.client, URL: w.world.url, Sink: w.sink}
	if _, err := job.Run(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

func (w *collection) open(ctx context.Context) (reconcile.Contents, error) {
	return kinto.OpenContents(ctx, w.server(), sink.Spec{Scheme: "kinto", Path: w.url})
}

// recordOf returns the URL of the record for a key.
func (w *collection) recordOf(key string) string {
	id := key
	if strings.ContainsAny(key, "_/") {
		sum := sha256.Sum256([]byte(key))
		id = "fc-" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:]))
	}
	return w.url + "/records/" + id
}

// add writes a record as a user would.
func (w *collection) add(key, members string) {
	w.t.Helper()
	kintotest.Send(w.t, http.MethodPut, w.recordOf(key), `{"data":`+members+`}`)
}

func (w *collection) remove(key string) {
	w.t.Helper()
	kintotest.Send(w.t, http.MethodDelete, w.recordOf(key), "")
}

// replace changes the Content-ID and the content of a record.
func (w *collection) replace(key, contentID string) {
	w.add(key, `{"n":-1,"feedctl":{"contentId":"`+contentID+`","key":"`+key+`"}}`)
}

// record returns the members of a record.
func (w *collection) record(key string) map[string]any {
	w.t.Helper()
	var answer struct{ Data map[string]any }
	if err := json.Unmarshal([]byte(kintotest.Send(w.t, http.MethodGet, w.recordOf(key), "")), &answer); err != nil {
		w.t.Fatal(err)
	}
	return answer.Data
}

// reconcile runs a comparison and fails the test unless it finds exactly the lines in want.
func (w *collection) reconcile(c reconcile.Config, want ...string) *reconcile.Report {
	w.t.Helper()
	got := lines(&c)
	report, err := reconcile.Run(w.t.Context(), c)
	if err != nil || !slices.Equal(*got, want) {
		w.t.Fatalf("found %q, %v, want %q", *got, err, want)
	}
	return report
}

func (w *collection) config() reconcile.Config {
	d, _ := w.digest()
	c := w.world.config(d)
	c.Open = w.open
	return c
}

// TestKinto: records are compared by Content-ID and repaired, including those whose keys cannot be ids.
// Records of other clients are neither reported as extra nor touched.
func TestKinto(t *testing.T) {
	withKinto(t, func(t *testing.T, w *collection) {
		w.publish(250)
		for _, key := range odd {
			w.send(w.put(key, "[1.50]"))
		}
		w.consume()
		w.send(w.put("last", "{}")) // what was written last is written again when the sink is opened
		w.consume()
		c := w.config()
		rows := int64(250 + len(odd) + 1)
		if report := w.reconcile(c); report.Equal != rows || report.ByContentID != rows || len(report.Remarks) != 2 {
			t.Errorf("%+v", report)
		}
		w.add("foreign", `{"feedctl":"no object"}`)
		w.add("foreign2", `{"n":1}`)
		w.replace(key(3), "<by-hand@example.com>")
		w.remove(key(5))
		w.remove("a")
		w.remove("_under")
		w.replace("zzz", "<extra@example.com>")
		w.add("copy-of-a", `{"feedctl":{"contentId":"<a@example.com>","key":"a"}}`) // not the record of this key
		want := []string{"+ _under", "+ a", "* " + key(3), "+ " + key(5), "- zzz"}
		slices.SortFunc(want, func(a, b string) int { return strings.Compare(a[2:], b[2:]) })
		w.reconcile(c, want...)
		c.Sink = w.sink
		if report := w.reconcile(c, want...); report.Remaining() != 0 || report.Repair.Written != 4 || report.Repair.Deleted != 1 {
			t.Errorf("%+v", report.Repair)
		}
		c.Sink = nil
		w.reconcile(c)
		if n := w.record(key(3))["n"]; n != 3.0 {
			t.Errorf("repaired to %v", n)
		}
		for _, id := range []string{"foreign", "foreign2", "copy-of-a"} {
			w.record(id)
		}
		w.consume() // at the position that the repair left
	})
}

// TestKintoAhead: entities after the position of the digest are taken into account, and a sink that is behind
// is not compared.
func TestKintoAhead(t *testing.T) {
	withKinto(t, func(t *testing.T, w *collection) {
		w.publish(20)
		w.consume()
		c := w.config()
		w.send(w.put(key(1), `{"n":"new"}`), w.world.remove(key(2)), patchOf(key(3)), w.put("other", "{}"))
		w.consume()
		if report := w.reconcile(c); report.Between != 4 || report.Equal != 20 {
			t.Errorf("%+v", report)
		}
		w.replace(key(1), "<old@example.com>")
		w.replace(key(2), "<old@example.com>")
		w.reconcile(c, "* "+key(1), "- "+key(2))
		w.send(w.put("later", "{}"))
		if _, err := reconcile.Run(t.Context(), w.config()); !errors.Is(err, reconcile.ErrBehind) {
			t.Errorf("%v, want ErrBehind", err)
		}
	})
}

// TestKintoChangedMeanwhile: a record that someone else changes after the comparison is left alone, and the
// other records of the batch are written.
func TestKintoChangedMeanwhile(t *testing.T) {
	withKinto(t, func(t *testing.T, w *collection) {
		w.publish(10)
		w.consume()
		w.send(w.put("last", "{}"))
		w.consume()
		c := w.config()
		w.replace(key(1), "<old@example.com>")
		w.replace(key(2), "<old@example.com>")
		w.remove(key(3))
		w.remove(key(4))
		w.replace("extra1", "<1@example.com>")
		w.replace("extra2", "<2@example.com>")
		c.Sink = &meddler{w.sink, func() {
			for _, id := range []string{key(1), key(3), "extra1"} {
				w.add(id, `{"by":"hand","feedctl":{"contentId":"<hand@example.com>","key":"`+id+`"}}`)
			}
		}}
		got := lines(&c)
		report, err := reconcile.Run(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		left := (*got)[6:]
		slices.Sort(left)
		if want := []string{"! extra1", "! " + key(1), "! " + key(3)}; !slices.Equal(left, want) {
			t.Errorf("left alone: %q, want %q", left, want)
		}
		if r := report.Repair; r.Written != 2 || r.Deleted != 1 || r.Changed != 3 || report.Remaining() != 3 {
			t.Errorf("%+v", r)
		}
		for _, id := range []string{key(1), key(3), "extra1"} {
			if record := w.record(id); record["by"] != "hand" {
				t.Errorf("record %q was overwritten: %v", id, record)
			}
		}
	})
}

// TestKintoBusy: what a consumer writes while the records are being read is noticed.
func TestKintoBusy(t *testing.T) {
	withKinto(t, func(t *testing.T, w *collection) {
		w.publish(120)
		w.consume()
		contents, err := w.open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer contents.Close()
		n := 0
		for _, err = range contents.Rows(t.Context(), "", "") {
			if n++; n == 100 {
				w.send(w.put(key(65), `{}`))
				w.consume()
			}
		}
		if !errors.Is(err, kinto.ErrChanged) {
			t.Errorf("%v, want ErrChanged", err)
		}
		w.reconcile(w.config())
	})
}

// TestKintoCopies: copies of records from Kinto cannot be compared, and are not reported as missing.
func TestKintoCopies(t *testing.T) {
	withKinto(t, func(t *testing.T, w *collection) {
		w.send(&feed.Entity{
			Operation: feed.Put, ContentLocation: "doc", ContentType: "application/json",
			Header: []feed.Field{{Name: "ETag", Value: client.ETag(1700000000000)}},
			Body:   []byte(`{"id":"doc","last_modified":1700000000000}`),
		})
		w.consume()
		if _, err := reconcile.Run(t.Context(), w.config()); !errors.Is(err, kinto.ErrCopies) {
			t.Errorf("%v, want ErrCopies", err)
		}
	})
}
