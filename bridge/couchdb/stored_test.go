package couchdb

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/bridge"
	"github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/internal/couchtest"
	"github.com/feedctl/feedctl/storage/file"
)

// TestStored continues from testdata/bridge-1, written by the first version of the bridge: a store with
// a feed and a quarantine, the index, and the source's replication log. The source was the database
// zones of a fake at http://couch.test.
func TestStored(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string][]string{"whole": nil, "index lost": {"index"}, "log lost": {"log.json"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS("testdata/bridge-1")); err != nil {
				t.Fatal(err)
			}
			store, err := file.Open(t.Context(), &url.URL{Scheme: "file", Path: filepath.ToSlash(filepath.Join(dir, "store"))})
			if err != nil {
				t.Fatal(err)
			}
			fake := couchtest.NewFake(t)
			proxy, err := url.Parse(fake.URL())
			if err != nil {
				t.Fatal(err)
			}
			r := &rig{t: t, fake: fake, url: fake.URL() + "/zones", store: store, dir: dir, options: Options{Revs: true}}
			limit := int64(500)
			r.configure = func(c *Config) {
				c.Target, c.MaxDocument = "file:///var/lib/feedctl/store#docs", limit
				c.Source, err = couchdb.Open(couchdb.Config{
					URL: "http://couch.test/zones", HTTP: &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxy)}},
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			r.fillStored()
			log, err := os.ReadFile(filepath.Join(dir, "log.json"))
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range lost {
				if err := os.Remove(filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := os.Stat(filepath.Join(dir, "log.json")); err == nil {
				r.do(http.MethodPut, "/_local/929f2bf62a81b77c08333b29d99b3f38", strings.Replace(string(log), `"_rev":"0-2",`, "", 1))
			}
			one, two := "1-"+strings.Repeat("1", 32), "2-"+strings.Repeat("2", 32)
			r.graft("a", false, `"zone":"latest"`, "3-"+strings.Repeat("3", 32), two, one)
			r.graft("g", false, `"zone":"new"`, one)
			if report := r.run(); report.Published != 2 || report.Quarantined != 0 {
				t.Errorf("continued: %+v", report)
			}
			if report := r.run(); report.Published != 0 || report.Rows != 0 {
				t.Errorf("again: %+v", report)
			}
			if bad := r.quarantined(); len(bad) != 2 || !strings.Contains(bad["large"], "500 bytes") {
				t.Errorf("quarantine: %v", bad)
			}
			limit = 0
			b := r.open(store)
			if report, err := b.Retry(t.Context()); err != nil || report != (bridge.RetryReport{Published: 2, Removed: 2}) {
				t.Errorf("retry: %+v, %v", report, err)
			}
			if err := b.Close(); err != nil {
				t.Error(err)
			}
			r.check()
			if n := len(r.events()); n != 9 {
				t.Errorf("%d entities, want 9", n)
			}
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// fillStored fills the source with the documents of testdata/bridge-1.
func (r *rig) fillStored() {
	r.t.Helper()
	one, two := "1-"+strings.Repeat("1", 32), "2-"+strings.Repeat("2", 32)
	r.do(http.MethodPut, "", "")
	for _, id := range []string{"a", "b", "c", "d", "é/f"} {
		r.graft(id, false, `"zone":"`+id+`"`, one)
	}
	r.graft("a", false, `"zone":"later"`, two, one)
	r.graft("b", true, `"gone":true`, two, one)
	r.graft("large", false, `"text":"`+strings.Repeat("x", 1000)+`"`, one)
	r.graft("larger", false, `"text":"`+strings.Repeat("x", 2000)+`"`, one)
}
