package kinto_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/kintotest"
	"github.com/feedctl/feedctl/sink/patch"
	"github.com/feedctl/feedctl/sink/sinktest"
)

// A trouble is a reason why a part of a batch is not stored, although the position is.
type trouble struct {
	name    string
	always  bool
	spoil   func(t *testing.T, url string, r *http.Request)
	lacks   string // the id of a record that is refused
	refused int64
}

// troubles holds the troubles that TestKilledInTrouble causes.
var troubles = []trouble{
	{name: "foreign writer", spoil: func(t *testing.T, url string, _ *http.Request) {
		kintotest.Send(t, "PUT", url+"/records/c", `{"data":{"n":"foreign"}}`)
	}},
	{name: "conflict", spoil: func(_ *testing.T, _ string, r *http.Request) {
		rewrite(r, `{"n":2,`, `{"last_modified":1700000000000,"n":2,`)
	}},
	{name: "conflict and foreign writer", spoil: func(t *testing.T, url string, r *http.Request) {
		kintotest.Send(t, "PUT", url+"/records/c", `{"data":{"n":"foreign"}}`)
		rewrite(r, `{"n":2,`, `{"last_modified":1700000000000,"n":2,`)
	}},
	{name: "refused", always: true, lacks: "b", refused: 1, spoil: func(_ *testing.T, _ string, r *http.Request) {
		rewrite(r, `/records/b"`, `/records/-b"`)
	}},
}

// rewrite replaces a part of the body of a request.
func rewrite(r *http.Request, from, to string) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(bytes.Replace(body, []byte(from), []byte(to), 1)))
}

// TestKilledInTrouble: a consumer is killed after some of the requests that follow a batch that was
// not stored completely. The next consumer writes what is missing, and counts what is refused.
func TestKilledInTrouble(t *testing.T) {
	t.Parallel()
	for form, batches := range map[string][][]*feed.Entity{
		"own form": {
			{put(1, "a", `{"n":1}`), put(2, "c", `{"n":1}`)},
			{put(3, "a", `{"n":3}`), put(4, "b", `{"n":2,"b":0}`), put(5, "c", `{"n":5}`)},
		},
		"without Content-ID": {
			{put(1, "a", `{"n":1}`), put(2, "c", `{"n":1}`)},
			{unnamed(put(3, "a", `{"n":3}`)), unnamed(put(4, "b", `{"n":2,"b":0}`)), put(5, "c", `{"n":5}`)},
		},
		"patched": {
			{put(1, "a", `{"n":1}`), put(2, "c", `{"n":1}`)},
			{entity(3, feed.Patch, "a", patch.Merge, `{"n":3}`), put(4, "b", `{"n":2,"b":0}`), put(5, "c", `{"n":5}`)},
		},
		"as is": {
			{fromBridge(1, "a", `"n":1,`, 1701), fromBridge(2, "c", `"n":1,`, 1702)},
			{fromBridge(3, "a", `"n":3,`, 1703), fromBridge(4, "b", `"n":2,"b":0,`, 1704), fromBridge(5, "c", `"n":5,`, 1705)},
		},
	} {
		for _, x := range troubles {
			t.Run(form+", "+x.name, func(t *testing.T) {
				for after, killed := 0, true; killed; after++ {
					killed = x.kill(t, batches, after)
				}
			})
		}
	}
}

func unnamed(e *feed.Entity) *feed.Entity {
	e.ContentID = ""
	return e
}

// kill kills a consumer when it has made a number of requests after the trouble, and lets another one
// continue. It reports whether the consumer was still writing.
func (x trouble) kill(t *testing.T, batches [][]*feed.Entity, after int) (killed bool) {
	f := kintotest.NewFake(t)
	url := f.NewCollection(t)
	kintotest.Send(t, "PUT", url+"/records/past", `{"data":{"last_modified":1700000000000}}`)
	requests, troubled := 0, false
	first, err := impatient(t.Context(), url, 3, func(r *http.Request) (*http.Response, error) {
		if troubled {
			if requests++; requests > after {
				return nil, errKilled
			}
		}
		return http.DefaultTransport.RoundTrip(r)
	})
	if err != nil {
		t.Fatal(err)
	}
	mustWrite(t, first, batches[0]...)
	n := 1
	if x.always {
		n = 0
	}
	f.Inject(n, func(r *http.Request) bool { return bodyHas(r, `{"n":2,`) }, func(w http.ResponseWriter, r *http.Request, healthy http.HandlerFunc) {
		troubled = true
		x.spoil(t, url, r)
		healthy(w, r)
	})
	err = sinktest.Write(t.Context(), first, batches[1]...)
	first.Close()
	second := open(t, url, 3, http.DefaultTransport.RoundTrip)
	if err := sinktest.Continue(t, second, batches); err != nil {
		t.Fatalf("killed %d requests later: %v", after, err)
	}
	want := map[string]string{"past": `{}`, "a": `{"n":3}`, "b": `{"b":0,"n":2}`, "c": `{"n":5}`}
	delete(want, x.lacks)
	checkListing(t, url, want)
	if n := failures(t, url); n < x.refused {
		t.Errorf("%d records were refused, want %d", n, x.refused)
	}
	if t.Failed() {
		t.Fatalf("killed %d requests later", after)
	}
	return err != nil
}

// failures returns the number of refused records that the position of the only consumer counts.
func failures(t *testing.T, url string) int64 {
	t.Helper()
	var list struct {
		Data []struct {
			Failures int64 `json:"failures"`
		} `json:"data"`
	}
	positions := url[:strings.LastIndex(url, "/")] + "/feedctl-positions/records"
	if err := json.Unmarshal([]byte(kintotest.Send(t, "GET", positions, "")), &list); err != nil || len(list.Data) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	return list.Data[0].Failures
}
