package kinto_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/kintotest"
	client "github.com/feedctl/feedctl/kinto"
)

// TestLongIDs: URLs remain short, although the ids of a chunk may take up 25 KB.
func TestLongIDs(t *testing.T) {
	t.Parallel()
	f := kintotest.NewFake(t)
	f.Batch, f.Page = 100, 30
	url := f.NewCollection(t)
	k := open(t, url, 1, nil)
	var all []*feed.Entity
	for n := range 99 {
		all = append(all, put(n, fmt.Sprintf("%0255d", n), `{}`))
	}
	mustWrite(t, k, all...)
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	k = open(t, url, 1, nil)
	if at, err := k.Position(t.Context()); err != nil || at.ContentID != "<98@example.com>" {
		t.Errorf("the sink is at %+v, %v", at, err)
	}
	for _, r := range f.Requests() {
		if len(r) > 5<<10 {
			t.Errorf("request of %d bytes: %.100s", len(r), r)
		}
	}
}

// TestUnstorableCopies: a record of Kinto that not all servers store, such as one from a server that keeps
// NUL, is stored as text under its id.
func TestUnstorableCopies(t *testing.T) {
	t.Parallel()
	for _, url := range []string{kintotest.NewFake(t).NewCollection(t), kintotest.Start(t, kintotest.PostgreSQL).NewCollection(t)} {
		k := open(t, url, 3, nil)
		all := []*feed.Entity{fromBridge(1, "a", `"x":"\u0000",`, 1700), fromBridge(2, "fc-b", `"\u0000":[],`, 1701), fromBridge(3, "c", `"x":1e400,`, 1702), fromBridge(4, "d", `"x":["\ud800"],`, 1703)}
		mustWrite(t, k, all...)
		got, err := listing(t.Context(), url)
		if err != nil || k.Rejected().Refused != 0 {
			t.Errorf("%v, rejected %+v", err, k.Rejected())
		}
		for i, id := range []string{"a", "fc-b", "c", "d"} {
			quoted := string(must(json.Marshal(string(all[i].Body))))
			if !strings.Contains(string(got[id]), quoted[1:len(quoted)-1]) {
				t.Errorf("record %s is %s", id, got[id])
			}
		}
		gone := remove(6, "fc-b")
		gone.Header = []feed.Field{{Name: "ETag", Value: client.ETag(1705)}}
		mustWrite(t, k, fromBridge(5, "a", `"x":1,`, 1704), gone)
		if got, err := listing(t.Context(), url); err != nil || len(got) != 3 || string(got["a"]) != `{"id":"a","x":1}` {
			t.Errorf("%s, %v", got, err)
		}
	}
}

// TestUnreadableAnswer: if the answer to a batch is too large to be read, what was stored is not written again.
func TestUnreadableAnswer(t *testing.T) {
	t.Parallel()
	f := kintotest.NewFake(t)
	url := f.NewCollection(t)
	k := open(t, url, 3, nil)
	written := 0
	f.Inject(0, func(r *http.Request) bool { return bodyHas(r, `"n":1`) }, func(w http.ResponseWriter, r *http.Request, healthy http.HandlerFunc) {
		written++
		healthy(httptest.NewRecorder(), r)
		_, _ = io.WriteString(w, `{}`) // the client may be gone
	})
	mustWrite(t, k, put(1, "a", `{"n":1}`), put(2, "b", `{"n":2}`))
	if checkListing(t, url, map[string]string{"a": `{"n":1}`, "b": `{"n":2}`}); written != 1 {
		t.Errorf("record a was written %d times", written)
	}
}
