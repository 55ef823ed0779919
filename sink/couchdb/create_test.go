package couchdb_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/couchtest"
)

// TestCreates counts the requests for revisions: there are none as long as most documents are new and
// the database was empty in the beginning.
func TestCreates(t *testing.T) {
	for _, empty := range []bool{true, false} {
		t.Run(fmt.Sprintf("empty=%t", empty), func(t *testing.T) {
			to := newDB(t, empty)
			var lookups []int
			k := open(t, to, func(r *http.Request) (*http.Response, error) {
				if strings.HasSuffix(r.URL.Path, "/_all_docs") {
					lookups[len(lookups)-1]++
				}
				return http.DefaultTransport.RoundTrip(r)
			})
			write := func(all ...*feed.Entity) {
				lookups = append(lookups, 0)
				mustWrite(t, k, all...)
			}
			write(put(1, "a", `{"n":1}`), put(2, "b", `{"n":2}`))
			write(put(3, "c", `{"n":3}`), put(4, "d", `{"n":4}`))
			write(put(5, "a", `{"n":5}`), put(6, "b", `{"n":6}`)) // they conflict
			write(put(7, "a", `{"n":7}`), put(8, "b", `{"n":8}`)) // so these are looked up
			write(put(9, "e", `{"n":9}`), put(10, "f", `{"n":10}`))
			write(put(11, "g", `{"n":11}`), put(12, "h", `{"n":12}`)) // and these are not again
			want := []int{0, 0, 1, 1, 1, 0}
			if !empty {
				want = []int{1, 1, 1, 1, 1, 1}
			}
			if diff := cmp.Diff(want, lookups); diff != "" {
				t.Errorf("requests for revisions of each batch (-want +got):\n%s", diff)
			}
			checkDocuments(t, to, map[string]string{"a": `{"n":7}`, "b": `{"n":8}`, "c": `{"n":3}`, "d": `{"n":4}`,
				"e": `{"n":9}`, "f": `{"n":10}`, "g": `{"n":11}`, "h": `{"n":12}`})
		})
	}
}

// TestCreatesOthers has another client create a document with the Content-ID of an entity: the feed wins.
func TestCreatesOthers(t *testing.T) {
	to := couchtest.NewDB(t)
	k := open(t, to, nil)
	couchtest.Send(t, http.MethodPut, to+"/a", fmt.Sprintf(`{"n":"another","feedctl":{"contentId":%q}}`, put(1, "a", "").ContentID))
	mustWrite(t, k, put(1, "a", `{"n":1}`), put(2, "b", `{"n":2}`))
	checkDocuments(t, to, map[string]string{"a": `{"n":1}`, "b": `{"n":2}`})
}
