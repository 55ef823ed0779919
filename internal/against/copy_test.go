package against_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/against"
	"github.com/feedctl/feedctl/internal/kintotest"
	"github.com/feedctl/feedctl/kinto"
	kintosink "github.com/feedctl/feedctl/sink/kinto"
	"github.com/feedctl/feedctl/sink/patch"
)

// copyTo consumes the feed into a collection.
func (w *world) copyTo(url string) {
	w.t.Helper()
	to, err := kintosink.Open(w.t.Context(), kinto.Config{URL: url}, "")
	if err != nil {
		w.t.Fatal(err)
	}
	job := consumer.Job{Client: w.config.Client, URL: w.config.URL, Sink: to}
	if _, err := job.Run(w.t.Context()); err != nil {
		w.t.Error(err)
	}
	if err := to.Close(); err != nil {
		w.t.Error(err)
	}
}

// A collection is a Kinto collection. Its methods change it as another client would.
type collection struct {
	t   *testing.T
	url string
}

// record returns the record that the sink wrote for a key, and the id of the record.
func (c collection) record(key string) (id, data string) {
	c.t.Helper()
	if _, err := openKinto(c.t, c.url, kintotest.User).Collection.List(c.t.Context(), kinto.Query{}, func(r kinto.Row) error {
		if kintosink.CopyOf(r.ID, r.Data).Key == key {
			id, data = r.ID, string(r.Data)
		}
		return nil
	}); err != nil || id == "" {
		c.t.Fatalf("no record for %q: %v", key, err)
	}
	return id, data
}

func (c collection) put(id, data string) {
	c.t.Helper()
	kintotest.Send(c.t, http.MethodPut, c.url+"/records/"+id, `{"data":`+data+`}`)
}

func (c collection) remove(key string) {
	c.t.Helper()
	id, _ := c.record(key)
	kintotest.Send(c.t, http.MethodDelete, c.url+"/records/"+id, "")
}

// forget deletes the positions of all consumers.
func (c collection) forget() {
	c.t.Helper()
	kintotest.Send(c.t, http.MethodDelete, c.url[:strings.LastIndex(c.url, "/")]+"/feedctl-positions", "")
}

func (c collection) edit(key, from, to string) {
	c.t.Helper()
	id, data := c.record(key)
	edited := strings.Replace(data, from, to, 1)
	if edited == data {
		c.t.Fatalf("%s has no %s", data, from)
	}
	c.put(id, edited)
}

func text(key, contentType, body string) *feed.Entity {
	return &feed.Entity{Operation: feed.Put, ContentType: contentType, ContentLocation: feed.EncodeKey(key), Body: []byte(body)}
}

// published returns an entity like one that bridge/kinto publishes for a record.
func published(id, members string, stamp int64) *feed.Entity {
	return put(item(id, kinto.ETag(stamp), fmt.Sprintf(`{%s"id":%q,"last_modified":%d}`, members, id, stamp)))
}

// TestCompareCopy compares feeds with the collections that the sink has written, unchanged and after changes
// by another client.
func TestCompareCopy(t *testing.T) {
	merge := text("a", patch.Merge, `{"n":2}`)
	merge.Operation = feed.Patch
	own := []*feed.Entity{text("a", "application/json", `{"n":1}`), merge, text("a/b", "application/json", `{"x":1.50}`), text("t", "text/plain", "text"), text("fc-x", "application/json", "{}")}
	bridged := []*feed.Entity{text("r/attachment", "image/png", "\x89PNG"), published("r", `"n":1,"attachment":{"location":"r.png"},`, 1700), published("fc-y", "", 1701), published("fc-z", `"x":"\u0000",`, 1702)}
	const deep = true
	for _, test := range []struct {
		name   string
		feed   []*feed.Entity
		change func(c collection)
		deep   bool
		want   string // the kinds and keys of the differences
	}{
		{"equal", own, nil, !deep, ""},
		{"equal, with bodies", own, nil, deep, ""},
		{"equal records of Kinto", bridged, nil, deep, ""},
		{"equal, without a position", own, func(c collection) { c.forget() }, !deep, ""},
		{"record is missing", own, func(c collection) { c.remove("a/b") }, !deep, "extra a/b"},
		{"record of Kinto is missing", bridged, func(c collection) { c.remove("r") }, deep, "extra r"},
		{"file is missing", bridged, func(c collection) { c.remove("r/attachment") }, deep, "extra r/attachment"},
		{"record of another client", own, func(c collection) { c.put("z", `{}`) }, !deep, "missing z"},
		{"record that has the key of another", own, func(c collection) { c.put("z", `{"feedctl":{"key":"a"}}`) }, !deep, "missing z"},
		{"replaced by another client", own, func(c collection) { c.put("a", `{"n":2}`) }, !deep, "version a"},
		{"replaced by another client, with bodies", own, func(c collection) { c.put("a", `{"n":2}`) }, deep, "version a"},
		{"version", own, func(c collection) { c.edit("a/b", `"contentId":"`, `"contentId":"x`) }, !deep, "version a/b"},
		{"version, with bodies", own, func(c collection) { c.edit("a/b", `"contentId":"`, `"contentId":"x`) }, deep, "version a/b"},
		{"member is not asked for", own, func(c collection) { c.edit("a", `"n":2`, `"n":3`) }, !deep, ""},
		{"member", own, func(c collection) { c.edit("a", `"n":2`, `"n":3`) }, deep, "body a"},
		{"body as text", own, func(c collection) { c.edit("t", `"body":"text"`, `"body":"other"`) }, deep, "body t"},
		{"file", bridged, func(c collection) { c.edit("r/attachment", `"bodyBase64":"`, `"bodyBase64":"eHh4`) }, deep, "body r/attachment"},
		{"record of Kinto", bridged, func(c collection) { c.edit("r", `"n":1`, `"n":2`) }, deep, "body r"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := collection{t, kintotest.NewFake(t).NewCollection(t)}
			w := newWorld(t, test.feed...)
			w.copyTo(c.url)
			if test.change != nil {
				test.change(c)
			}
			report, err := w.compare(openKinto(t, c.url, kintotest.User), test.deep)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, d := range report.Differences {
				got = append(got, d.Kind+" "+d.Key)
			}
			if strings.Join(got, ", ") != test.want || !report.Copy {
				t.Errorf("differences: %q, want %q; a copy: %v", lines(report), test.want, report.Copy)
			}
		})
	}
}

// TestCompareCopyVersions: records of Kinto have no version in a copy, so Compare does not report them as
// equal without comparing their bodies.
func TestCompareCopyVersions(t *testing.T) {
	url := kintotest.NewFake(t).NewCollection(t)
	w := newWorld(t, published("r", "", 1700))
	w.copyTo(url)
	if report, err := w.compare(openKinto(t, url, kintotest.User), false); !errors.Is(err, against.ErrNoVersion) || !strings.Contains(err.Error(), `"r"`) {
		t.Errorf("%+v, %v", report, err)
	}
}

// TestCompareSourceWithCopies: a collection to which a sink writes may be the source of another feed,
// and is then compared by its own versions.
func TestCompareSourceWithCopies(t *testing.T) {
	url := kintotest.NewFake(t).NewCollection(t)
	newWorld(t, text("a", "application/json", `{"n":1}`), text("a/b", "application/json", `{"n":2}`)).copyTo(url)
	c := openKinto(t, url, kintotest.User)
	var bridged []*feed.Entity
	if _, err := c.Collection.List(t.Context(), kinto.Query{}, func(r kinto.Row) error {
		bridged = append(bridged, put(item(r.ID, kinto.ETag(r.Stamp), string(r.Data))))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, bridged...)
	for _, deep := range []bool{false, true} {
		if report, err := w.compare(c, deep); err != nil || report.Count() != 0 || report.Keys != 2 || report.Copy {
			t.Errorf("%+v, %v", report, err)
		}
	}
	second := kintotest.NewFake(t).NewCollection(t)
	w.copyTo(second)
	if report, err := w.compare(openKinto(t, second, kintotest.User), true); err != nil || report.Count() != 0 || !report.Copy {
		t.Errorf("copy of the copy: %+v, %v", report, err)
	}
	kintotest.Send(t, http.MethodPatch, url+"/records/a", `{"data":{"n":3}}`)
	report, err := w.compare(c, false)
	if err != nil || len(report.Differences) != 1 || report.Differences[0].Kind != "version" {
		t.Errorf("changed source: %+v, %v", report, err)
	}
}
