package against_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/bridge/couchdb"
	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/consumer/fromstore"
	client "github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/internal/against"
	"github.com/feedctl/feedctl/internal/couchtest"
	"github.com/feedctl/feedctl/storage/memory"
)

// TestCouchDB compares a database with the feed of its bridge in several states, and finds the changes
// that the bridge has not published.
func TestCouchDB(t *testing.T) {
	for name, newDB := range map[string]func(testing.TB) string{
		"PouchDB": couchtest.NewDB,
		"fake":    func(t testing.TB) string { return couchtest.NewFake(t).NewDB(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := newDB(t)
			db, err := client.Open(client.Config{URL: url})
			if err != nil {
				t.Fatal(err)
			}
			store := memory.New()
			bridge, err := couchdb.Open(t.Context(), couchdb.Config{Source: db, Store: store, Feed: "docs", Index: filepath.Join(t.TempDir(), "index")})
			if err != nil {
				t.Fatal(err)
			}
			pages := fromstore.New(store, fromstore.Config{})
			reader, err := consumer.New(consumer.Config{Source: pages})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				pages.Close()
				if err := errors.Join(bridge.Close(), store.Close()); err != nil {
					t.Error(err)
				}
			})
			write := func(id, members string) (rev string) {
				answer := couchtest.Send(t, http.MethodPut, url+"/"+client.DocPath(id), members)
				return strings.Split(strings.Split(answer, `"rev":"`)[1], `"`)[0]
			}
			// check compares the database with the feed; want holds the kind and the key of each
			// difference.
			check := func(want ...string) *against.Report {
				t.Helper()
				config := against.Config{Source: against.CouchDB{DB: db}, Client: reader, URL: pages.Feed("docs"), Log: slog.New(slog.DiscardHandler)}
				report, err := against.Compare(t.Context(), config)
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, d := range report.Differences {
					got = append(got, d.Kind+" "+d.Key)
				}
				if !slices.Equal(got, want) || report.Copy || report.Changing {
					t.Fatalf("%q, want %q: %+v", got, want, report)
				}
				return report
			}
			run := func() {
				t.Helper()
				if _, err := bridge.Run(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			revs := map[string]string{}
			for _, id := range []string{"a", "b", "c", "Ä/ö", "%2F", "a+b c", "feedctl:x"} {
				revs[id] = write(id, "{}")
			}
			write("_design/d", `{"views":{}}`)
			for n := range 30 {
				write(fmt.Sprintf("doc %d", n), "{}")
			}
			run()
			if report := check(); report.Items != 37 || report.Keys != 37 {
				t.Errorf("%+v", report)
			}
			write("new", "{}")
			write("a", fmt.Sprintf(`{"_rev":%q,"n":2}`, revs["a"]))
			write("b", fmt.Sprintf(`{"_rev":%q,"_deleted":true}`, revs["b"]))
			check("version a", "extra b", "missing new")
			run()
			check()
			// Make a conflict whose winner is in the feed already, and one whose winner is not.
			couchtest.Send(t, http.MethodPost, url+"/_bulk_docs", `{"new_edits":false,"docs":[{"_id":"c","_rev":"1-0"},{"_id":"Ä/ö","_rev":"9-f"}]}`)
			check("version Ä/ö")
			run()
			check()
			write("Ä/ö", `{"_rev":"9-f","_deleted":true}`) // the loser wins again
			check("version Ä/ö")
			run()
			check()
		})
	}
}
