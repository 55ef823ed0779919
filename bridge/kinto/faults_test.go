package kinto

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/bridge"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/kintotest"
	"github.com/feedctl/feedctl/kinto"
)

// fails replaces the response to one request of the client, the first for which match returns true.
// The new response comes from the function with.
func (r *rig) fails(match func(*http.Request) bool, with func(*http.Request) (*http.Response, int64, error)) {
	done := false
	r.client.HTTP = &http.Client{Transport: &wire{func(q *http.Request) (*http.Response, int64, error) {
		if done || !match(q) {
			return nil, -1, nil
		}
		done = true
		return with(q)
	}}}
}

func isList(q *http.Request) bool {
	return q.Method == http.MethodGet && strings.HasSuffix(q.URL.Path, "/records")
}

// refuse returns a function that responds with an error, as the server does.
func refuse(status int, body string) func(*http.Request) (*http.Response, int64, error) {
	return func(q *http.Request) (*http.Response, int64, error) {
		return answer(q, status, http.Header{"Content-Type": {"application/json"}}, body), 0, nil
	}
}

// TestSourceFails: temporary failures are retried; others end the run, and delete nothing.
func TestSourceFails(t *testing.T) {
	for name, test := range map[string]struct {
		with  func(*http.Request) (*http.Response, int64, error)
		error error // nil: the run succeeds
	}{
		"503":                      {refuse(503, `{"code":503,"errno":201}`), nil},
		"429":                      {refuse(429, `{"code":429}`), nil},
		"cut at once":              {func(*http.Request) (*http.Response, int64, error) { return nil, 0, nil }, nil},
		"cut within a record":      {func(*http.Request) (*http.Response, int64, error) { return nil, 1000, nil }, nil},
		"no response":              {func(*http.Request) (*http.Response, int64, error) { return nil, 0, io.ErrUnexpectedEOF }, nil},
		"401":                      {refuse(401, `{"code":401,"errno":104}`), kinto.ErrUnauthorized},
		"403":                      {refuse(403, `{"code":403,"errno":121}`), ErrRights},
		"404 of a proxy":           {refuse(404, `not found`), kinto.ErrNotFound},
		"410":                      {refuse(410, `{"code":410,"errno":202}`), kinto.ErrGone},
		"page of a captive portal": {refuse(200, `<html>`), kinto.ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.configure = func(c *Config) { c.OnGone = Delete }
			r.fill(0, 60)
			r.run()
			r.fill(40, 90)
			r.fails(isList, test.with)
			_, err := r.tryRun(r.store)
			if !errors.Is(err, test.error) {
				t.Errorf("error is %v, want %v", err, test.error)
			}
			if got := len(r.fold()); err != nil && got != 60 {
				t.Errorf("after the error the feed has %d records", got)
			}
			r.client.HTTP = nil
			r.run()
			r.check()
		})
	}
}

func (r *rig) removeCollection() {
	r.t.Helper()
	kintotest.Send(r.t, http.MethodDelete, r.url, "")
}

func (r *rig) createCollection() {
	r.t.Helper()
	kintotest.Send(r.t, http.MethodPut, r.url, "")
}

// TestGone: if the collection does not exist, the run ends, or the records are deleted from the feed.
func TestGone(t *testing.T) {
	r := newRig(t)
	r.fill(0, 30)
	r.run()
	r.removeCollection()
	if _, err := r.tryRun(r.store); !errors.Is(err, ErrGone) {
		t.Errorf("error is %v", err)
	}
	if got := len(r.fold()); got != 30 {
		t.Errorf("the feed has %d records", got)
	}
	r.configure = func(c *Config) { c.OnGone = Delete }
	r.run()
	if got := len(r.fold()); got != 0 {
		t.Errorf("the feed has %d records", got)
	}
	if report := r.run(); !report.NoChanges {
		t.Errorf("report is %+v", report)
	}
	r.createCollection()
	r.fill(10, 20)
	r.run()
	r.check()
}

// TestNeverThere: a collection that never existed is an error, whatever OnGone says.
func TestNeverThere(t *testing.T) {
	r := newRig(t)
	r.url += "nope"
	r.configure = func(c *Config) { c.OnGone = Delete }
	if _, err := r.tryRun(r.store); !errors.Is(err, ErrGone) {
		t.Errorf("error is %v", err)
	}
}

// TestReplaced: a collection is deleted and created again between two runs.
func TestReplaced(t *testing.T) {
	for name, refill := range map[string]func(r *rig){
		"empty":    func(*rig) {},
		"fewer":    func(r *rig) { r.fill(0, 5) },
		"as many":  func(r *rig) { r.fill(100, 130) },
		"the same": func(r *rig) { r.fill(0, 30) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.fill(0, 30)
			r.run()
			r.removeCollection()
			r.createCollection()
			refill(r)
			r.run()
			r.check()
			if report := r.run(); !report.NoChanges {
				t.Errorf("report is %+v", report)
			}
		})
	}
}

// TestPastStamp: a record that is created with a stamp in the past is found because there is one more
// record.
func TestPastStamp(t *testing.T) {
	r := newRig(t)
	r.fill(0, 3)
	r.run()
	kintotest.Send(t, http.MethodPut, r.url+"/records/past", `{"data":{"last_modified":1000000}}`)
	r.run()
	r.check()
}

// TestPurged: tombstones are purged before they were read.
func TestPurged(t *testing.T) {
	server := kintotest.StartOwn(t, kintotest.Memory)
	r := newRigOf(t, server.NewCollection(t))
	r.fill(0, 30)
	r.run()
	r.delete("r3")
	r.delete("r29")
	server.Purge(t)
	r.run()
	r.check()
	for _, e := range r.events() {
		if e.Op == feed.Delete && !strings.Contains(e.Rev, goneMark) {
			t.Errorf("%+v", e)
		}
	}
}

// TestManyGone: more records are gone than is allowed.
func TestManyGone(t *testing.T) {
	r := newRig(t)
	r.fill(0, 150)
	r.run()
	r.removeCollection()
	r.createCollection()
	r.fill(0, 10)
	if _, err := r.tryRun(r.store); !errors.Is(err, ErrManyGone) {
		t.Errorf("error is %v", err)
	}
	if got := len(r.fold()); got != 150 {
		t.Errorf("the feed has %d records", got)
	}
	r.configure = func(c *Config) { c.MaxGone = 100 }
	r.run()
	r.check()
}

// TestRestored: the server is restored to an older state, with older stamps.
func TestRestored(t *testing.T) {
	r := newRig(t)
	r.fill(0, 10)
	r.run()
	old := r.listed()
	r.put("r3", `"n":"newer"`)
	r.put("r99", `"n":"newest"`)
	r.delete("r4")
	r.run()
	r.check()
	r.removeCollection()
	r.createCollection()
	newest := int64(0)
	for id, body := range old {
		kintotest.Send(t, http.MethodPut, r.url+"/records/"+id, `{"data":`+body+`}`)
		_, stamp, _ := strings.Cut(body, `"last_modified":`)
		n, err := strconv.ParseInt(strings.Trim(stamp, `{},"n:r`), 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		newest = max(newest, n)
	}
	r.client.HTTP = &http.Client{Transport: &etag{newest}}
	r.run()
	r.check()
	if got := r.fold(); got["r3"] != old["r3"] || got["r4"] != old["r4"] || got["r99"] != "" {
		t.Errorf("%v", got)
	}
	if report := r.run(); !report.NoChanges {
		t.Errorf("report is %+v", report)
	}
}

// An etag is a transport that replaces the stamp of a collection in responses.
type etag struct{ stamp int64 }

func (e *etag) RoundTrip(q *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(q)
	if err == nil && strings.HasSuffix(q.URL.Path, "/records") {
		resp.Header.Set("ETag", kinto.ETag(e.stamp))
	}
	return resp, err
}

// TestFuture: the server refuses bounds because a record has a stamp in the future.
func TestFuture(t *testing.T) {
	r := newRig(t)
	r.fill(0, 3)
	r.run()
	kintotest.Send(t, http.MethodPut, r.url+"/records/future", `{"data":{"last_modified":9999999999999}}`)
	r.run()
	r.put("later", `"n":1`)
	r.delete("r1")
	r.run()
	r.check()
	if report := r.run(); !report.NoChanges {
		t.Errorf("report is %+v", report)
	}
}

// TestForeign: a feed that was filled from another collection is refused.
func TestForeign(t *testing.T) {
	r := newRig(t)
	r.fill(0, 3)
	r.run()
	r.url = newRig(t).url
	if _, err := r.tryRun(r.store); !errors.Is(err, bridge.ErrForeign) {
		t.Errorf("error is %v", err)
	}
	r.configure = func(c *Config) { c.Moved = true }
	r.fill(1, 3)
	r.run()
	r.check()
}

// TestMark: with a marker, which shows whether the collection was replaced, a change of other
// metadata does not matter.
func TestMark(t *testing.T) {
	r := newRig(t)
	r.configure = func(c *Config) { c.Mark = true }
	r.fill(0, 3)
	r.run()
	metadata := kintotest.Send(t, http.MethodGet, r.url, "")
	if !strings.Contains(metadata, `"feedctl"`) {
		t.Fatalf("no marker: %s", metadata)
	}
	kintotest.Send(t, http.MethodPatch, r.url, `{"data":{"title":"new"}}`)
	if report := r.run(); report.Requests > 1 {
		t.Errorf("after a change of metadata: %+v", report)
	}
	r.removeCollection()
	r.createCollection()
	r.fill(1, 4)
	r.run()
	r.check()
	if now := kintotest.Send(t, http.MethodGet, r.url, ""); !strings.Contains(now, `"feedctl"`) || now == metadata {
		t.Errorf("marker is %s", now)
	}
}

// TestQuarantine: a record that is too large is put into quarantine, and published once its size is
// allowed.
func TestQuarantine(t *testing.T) {
	r := newRig(t)
	r.client.MaxRecord = 500
	r.fill(0, 5)
	for n := range 3 {
		r.put(fmt.Sprint("large", n), `"text":"`+strings.Repeat("x", 1000*n+300)+`"`)
	}
	r.configure = func(c *Config) { c.MaxRecord = 310 }
	report := r.run()
	if report.Published != 5 || report.Quarantined != 3 {
		t.Errorf("report is %+v", report)
	}
	if report := r.run(); !report.NoChanges || report.Requests > 2 {
		t.Errorf("the next run: %+v", report)
	}
	r.client.MaxRecord = 0
	r.configure = func(*Config) {}
	b := r.open(r.store)
	retried, err := b.Retry(t.Context())
	if err := errors.Join(err, b.Close()); err != nil || retried.Published != 3 || retried.Left != 0 {
		t.Errorf("%+v, %v", retried, err)
	}
	r.check()
}
