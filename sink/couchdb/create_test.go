package couchdb_test

import (
	"fmt"
	"io"
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
			write(put(11, "g", `{"n":11}`), put(12, "h", `{"n":12}`)) // and these, again, are not
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

// TestCreatesOthers: if another client creates a document with the Content-ID of an entity, the feed wins.
func TestCreatesOthers(t *testing.T) {
	to := couchtest.NewDB(t)
	k := open(t, to, nil)
	couchtest.Send(t, http.MethodPut, to+"/a", fmt.Sprintf(`{"n":"another","feedctl":{"contentId":%q}}`, put(1, "a", "").ContentID))
	mustWrite(t, k, put(1, "a", `{"n":1}`), put(2, "b", `{"n":2}`))
	checkDocuments(t, to, map[string]string{"a": `{"n":1}`, "b": `{"n":2}`})
}

// TestAloneInRequest: the server writes a document that is alone in its request, but responds with status 500. The
// request is repeated, and conflicts with itself.
func TestAloneInRequest(t *testing.T) {
	t.Parallel()
	to := couchtest.NewDB(t)
	var all []*feed.Entity
	for i := range 5 {
		all = append(all, put(i, fmt.Sprint(i), fmt.Sprintf(`{"text":%q}`, strings.Repeat("x", 250_000))))
	}
	requests := 0
	k, err := impatient(t.Context(), to, 2, func(r *http.Request) (*http.Response, error) {
		response, err := http.DefaultTransport.RoundTrip(r)
		if err != nil || !strings.HasSuffix(r.URL.Path, "/_bulk_docs") {
			return response, err
		}
		if requests++; requests == 2 {
			_, err = io.Copy(io.Discard, response.Body)
			response.Body.Close()
			response.Status, response.StatusCode = "500", http.StatusInternalServerError
			response.Body, response.ContentLength = io.NopCloser(strings.NewReader(`{"error":"internal_server_error"}`)), -1
		}
		return response, err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	mustWrite(t, k, all...)
	var last struct {
		Rev string `json:"_rev"`
	}
	get(t, to+"/4", &last)
	if requests != 3 || !strings.HasPrefix(last.Rev, "1-") {
		t.Errorf("%d requests, and the document has the revision %s; want 3, and the first revision", requests, last.Rev)
	}
}
