package kinto

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedctl/feedctl/internal/kintotest"
)

// TestRestoredUnseen: while no bridge runs, the server is restored from a backup, and new writes lift the
// stamp of the collection above that of the position. The number of records remains the same. The newest
// record that was read is missing from the list, which is the only sign.
func TestRestoredUnseen(t *testing.T) {
	for name, cut := range map[string]bool{"read": false, "cut off": true} { // the list without the record
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { restoredUnseen(t, cut) })
		})
	}
}

func restoredUnseen(t *testing.T, cut bool) {
	f := newFollowed(t)
	f.fake.Page = 2
	f.configure = func(c *Config) { c.Reconcile, c.Attempts = Never, 1 }
	run := func() {
		t.Helper()
		time.Sleep(time.Hour)
		f.run()
	}
	f.do(http.MethodPut, f.url+"/records/a", `{"data":{"n":1}}`)
	run()
	restore := f.fake.Snapshot(f.url)
	f.do(http.MethodPut, f.url+"/records/a", `{"data":{"n":2}}`)
	run()
	restore()
	for _, id := range []string{"b", "c", "d"} {
		f.do(http.MethodPut, f.url+"/records/"+id, `{"data":{}}`)
	}
	if cut {
		f.fake.Inject(1, func(q *http.Request) bool { return q.URL.Query().Has("_token") }, kintotest.Refuse(503, 201, "later"))
		if _, err := f.tryRun(f.store); err == nil {
			t.Error("no error from a list that is cut off")
		}
		f.has("a b c")
	}
	run()
	f.has("a b c d")
	if a := f.fold()["a"]; !strings.Contains(a, `"n":1`) {
		t.Errorf("a is %s", a)
	}
	compared := f.onCompare(func(int64) {})
	if run(); compared.Load() > 0 {
		t.Error("the collection is compared again")
	}
}

// TestNewestStays: the newest record that was read stays, changes or is deleted, which is no reason to compare all
// records.
func TestNewestStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFollowed(t)
		f.configure = func(c *Config) { c.Reconcile = Never }
		compared := f.onCompare(func(int64) {})
		step := func(method, id string) {
			t.Helper()
			if method != "" {
				f.do(method, f.url+"/records/"+id, `{"data":{}}`)
			}
			for _, pause := range []time.Duration{0, 25 * time.Hour, time.Second} {
				time.Sleep(pause)
				if f.run(); compared.Load() > 0 {
					t.Fatalf("all records are compared after %s %s and %v", method, id, pause)
				}
			}
		}
		step("", "") // an empty collection
		f.fake.Fill(f.url, 3*pieceRows, func(int) string { return `{}` })
		step("", "")
		step(http.MethodPut, "a")
		step(http.MethodPut, "b")
		step(http.MethodPut, "a")
		step(http.MethodPut, "b")
		step(http.MethodDelete, "b")
		step(http.MethodPut, "b")
		step(http.MethodPut, "c")
		step(http.MethodDelete, "a")
		f.do(http.MethodPut, f.url+"/records/a", `{"data":{}}`)
		f.do(http.MethodPut, f.url+"/records/d", `{"data":{}}`)
		step(http.MethodPut, "e")
		f.has("a b c d e")
	})
}
