package kinto_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/httpfault"
	"github.com/feedctl/feedctl/internal/kintotest"
	client "github.com/feedctl/feedctl/kinto"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/kinto"
	"github.com/feedctl/feedctl/sink/patch"
	"github.com/feedctl/feedctl/sink/sinktest"
)

// batches returns the batches that the tests below write. They cover everything that a sink does.
func batches() [][]*feed.Entity {
	var many []*feed.Entity
	for n := 100; n < 160; n++ {
		many = append(many, put(n, fmt.Sprint("m", n%40), fmt.Sprintf(`{"n":%d}`, n)))
	}
	return [][]*feed.Entity{
		{put(1, "a", `{"n":1,"log":[]}`), put(2, "b", `{"n":2}`), entity(3, feed.Put, "c", "text/plain", "text"), put(4, "a/b", `{"n":4}`)},
		{entity(11, feed.Patch, "a", patch.JSON, `[{"op":"add","path":"/log/-","value":11}]`), remove(12, "b"), remove(13, "never")},
		{entity(21, feed.Patch, "a", patch.JSON, `[{"op":"add","path":"/log/-","value":21}]`), entity(22, feed.Patch, "a", patch.JSON, `[{"op":"add","path":"/log/-","value":22}]`), fromBridge(23, "k", `"x":1,"deleted":true,`, 1700)},
		many,
		{remove(200, "m1"), entity(201, feed.Patch, "a", patch.Merge, `{"end":true}`)},
	}
}

// final returns the records after batches, by id, without the member feedctl.
func final() map[string]string {
	want := map[string]string{
		"a": `{"end":true,"log":[11,21,22],"n":1}`, "c": `{}`, kinto.RecordID("a/b"): `{"n":4}`, "k": `{"deleted":true,"x":1}`,
	}
	for n := 100; n < 160; n++ {
		want[fmt.Sprint("m", n%40)] = fmt.Sprintf(`{"n":%d}`, n)
	}
	delete(want, "m1")
	return want
}

// TestFaults makes requests fail once in each way: every fifth request, or all. With -short, it is every
// twentieth, since a few cases are enough for the race detector.
func TestFaults(t *testing.T) {
	t.Parallel()
	every := 5
	switch {
	case *allFaults:
		every = 1
	case testing.Short():
		every = 20
	}
	for name, fault := range map[string]httpfault.Fault{
		"answer lost": kintotest.Lose(),
		"answer cut":  httpfault.Cut(20),
		"unavailable": kintotest.Refuse(503, 201, "later"),
		"conflict":    kintotest.Refuse(409, 122, "Integrity constraint violated, please retry."),
	} {
		t.Run(name, func(t *testing.T) {
			for n, failed := 1+rand.IntN(every), true; failed; n += every {
				f := kintotest.NewFake(t)
				url := f.NewCollection(t)
				f.Requests()
				failed = false
				count := 0
				f.Inject(0, func(*http.Request) bool { count++; return true }, func(w http.ResponseWriter, r *http.Request, healthy http.HandlerFunc) {
					if count != n {
						healthy(w, r)
						return
					}
					failed = true
					fault(w, r, healthy)
				})
				for try := 0; ; try++ {
					k, err := impatient(t.Context(), url, 1, http.DefaultTransport.RoundTrip)
					if err == nil {
						if err = sinktest.Continue(t, k, batches()); err != nil { // the same sink continues, if it can
							err = sinktest.Continue(t, k, batches())
						}
						k.Close()
					}
					if err == nil {
						break
					}
					if try == 2 {
						t.Fatalf("request %d: %v", n, err)
					}
				}
				f.Heal()
				checkListing(t, url, final())
			}
		})
	}
}

// TestConflictUndoes: a conflict in a batch undoes what came before it, although that is answered with
// 201.
func TestConflictUndoes(t *testing.T) {
	t.Parallel()
	f := kintotest.NewFake(t)
	url := f.NewCollection(t)
	kintotest.Send(t, "PUT", url+"/records/past", `{"data":{"last_modified":1700000000000}}`)
	k := open(t, url, 3, nil)
	f.Inject(1, func(r *http.Request) bool { return bodyHas(r, `{"n":2,`) }, conflicting)
	mustWrite(t, k, put(1, "a", `{"n":1}`), put(2, "b", `{"n":2}`), put(3, "c", `{"n":3}`))
	checkListing(t, url, map[string]string{"past": `{}`, "a": `{"n":1}`, "b": `{"n":2}`, "c": `{"n":3}`})
}

// TestPoison: the server fails on one record of many, and refuses another: all others are stored, and
// the position is after them.
func TestPoison(t *testing.T) {
	t.Parallel()
	f := kintotest.NewFake(t)
	url := f.NewCollection(t)
	contains := func(text string) func(*http.Request) bool {
		return func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/batch") && bodyHas(r, text) }
	}
	f.Inject(0, contains("poison"), kintotest.Refuse(503, 201, "later"))
	f.Inject(0, contains("too much"), kintotest.Refuse(413, 113, "too large"))
	k := open(t, url, 3, nil)
	want := map[string]string{}
	var all []*feed.Entity
	for n := range 30 {
		body := fmt.Sprintf(`{"n":%d}`, n)
		switch key := fmt.Sprint("r", n); n {
		case 7:
			body = `{"x":"poison"}`
		case 19:
			body = `{"x":"too much"}`
		default:
			want[key] = body
		}
		all = append(all, put(n, fmt.Sprint("r", n), body))
	}
	mustWrite(t, k, all...)
	checkListing(t, url, want)
	rejected := k.Rejected()
	ids := []string{}
	for _, r := range rejected.Refusals {
		ids = append(ids, r.ID)
	}
	if slices.Sort(ids); rejected.Refused != 2 || !slices.Equal(ids, []string{"r19", "r7"}) {
		t.Errorf("rejected: %+v", rejected)
	}
	if at, err := k.Position(t.Context()); err != nil || at.ContentID != "<29@example.com>" {
		t.Errorf("position: %+v, %v", at, err)
	}
}

// TestDown: if a server fails on everything, no record is considered the cause.
func TestDown(t *testing.T) {
	t.Parallel()
	f := kintotest.NewFake(t)
	url := f.NewCollection(t)
	k := open(t, url, 3, nil)
	f.Inject(0, httpfault.On("", ""), kintotest.Refuse(503, 201, "later"))
	if err := sinktest.Write(t.Context(), k, put(1, "a", `{}`)); client.Status(err) != 503 || !errors.Is(err, sink.ErrUnavailable) || k.Rejected().Refused != 0 {
		t.Errorf("got %v, rejected %+v", err, k.Rejected())
	}
	f.Heal()
	if at, err := k.Position(t.Context()); err != nil || at != (feed.Position{}) {
		t.Errorf("position: %+v, %v", at, err)
	}
	mustWrite(t, k, put(1, "a", `{}`))
	checkListing(t, url, map[string]string{"a": `{}`})
}

// TestNUL writes strings that PostgreSQL cannot store.
func TestNUL(t *testing.T) {
	t.Parallel()
	for _, url := range []string{kintotest.NewFake(t).NewCollection(t), kintotest.Start(t, kintotest.PostgreSQL).NewCollection(t)} {
		k := open(t, url, 3, nil)
		mustWrite(t, k, put(1, "a\x00", `{"x":"\u0000"}`), entity(2, feed.Put, "b", "text/plain", "\x00"))
		if got, err := listing(t.Context(), url); err != nil || len(got) != 2 || k.Rejected().Refused != 0 {
			t.Errorf("%s: %s, %v", url, got, err)
		}
	}
}

// TestForeignWriter: a record that others have changed is overwritten, even if they changed it between
// the requests of a chunk, or after the chunk while no consumer was running.
func TestForeignWriter(t *testing.T) {
	t.Parallel()
	f := kintotest.NewFake(t)
	url := f.NewCollection(t)
	k := open(t, url, 1, nil)
	mustWrite(t, k, put(1, "a", `{"n":1}`), put(2, "b", `{"n":2}`))
	times := 0
	f.Inject(1, func(r *http.Request) bool {
		times++
		return times == 2
	}, func(w http.ResponseWriter, r *http.Request, healthy http.HandlerFunc) {
		f.Heal()
		kintotest.Send(t, "PUT", url+"/records/a", `{"data":{"n":"foreign"}}`)
		healthy(w, r)
	})
	mustWrite(t, k, put(3, "a", `{"n":3}`), remove(4, "b"))
	checkListing(t, url, map[string]string{"a": `{"n":3}`})
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	kintotest.Send(t, "PUT", url+"/records/a", `{"data":{"n":"foreign"}}`)
	k = open(t, url, 1, nil)
	at, err := k.Position(t.Context())
	if err != nil || at.ContentID != "<2@example.com>" {
		t.Errorf("the sink is at %+v, %v", at, err)
	}
	mustWrite(t, k, put(3, "a", `{"n":3}`), remove(4, "b"))
	checkListing(t, url, map[string]string{"a": `{"n":3}`})
}

// TestPatchTwice: a chunk that is repeated, because others have changed a record of it, does not
// apply a PATCH again.
func TestPatchTwice(t *testing.T) {
	t.Parallel()
	url := kintotest.NewFake(t).NewCollection(t)
	chunk := []*feed.Entity{entity(2, feed.Patch, "a", patch.JSON, `[{"op":"add","path":"/log/-","value":2}]`), put(3, "b", `{"n":3}`)}
	k := open(t, url, 1, nil)
	mustWrite(t, k, put(1, "a", `{"log":[]}`))
	mustWrite(t, k, chunk...)
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	kintotest.Send(t, "DELETE", url+"/records/b", "")
	k = open(t, url, 1, nil)
	if at, err := k.Position(t.Context()); err != nil || at.ContentID != "<1@example.com>" {
		t.Errorf("the sink is at %+v, %v", at, err)
	}
	mustWrite(t, k, chunk...)
	checkListing(t, url, map[string]string{"a": `{"log":[2]}`, "b": `{"n":3}`})
}

// TestTakenOver: a consumer detects that a second one, on another host, has taken over.
func TestTakenOver(t *testing.T) {
	url := kintotest.NewFake(t).NewCollection(t)
	first := open(t, url, 1, nil)
	mustWrite(t, first, put(1, "a", `{"n":1}`))
	t.Setenv("TMPDIR", t.TempDir()) // so it has other locks, like another host
	second := open(t, url, 1, nil)
	mustWrite(t, second, put(2, "a", `{"n":2}`))
	for range 2 {
		if err := sinktest.Write(t.Context(), first, put(2, "a", `{"n":"late"}`)); err == nil {
			t.Fatal("a consumer wrote although another had taken over")
		}
		if _, err := first.Position(t.Context()); !errors.Is(err, kinto.ErrTaken) {
			t.Errorf("position: %v, want %v", err, kinto.ErrTaken)
		}
	}
	mustWrite(t, second, put(3, "b", `{"n":3}`))
	checkListing(t, url, map[string]string{"a": `{"n":2}`, "b": `{"n":3}`})
}

// TestForms checks how records hold bodies.
func TestForms(t *testing.T) {
	for body, want := range map[string]string{
		`{"a":[1,-7,0.5,9223372036854775807,"\u00e9"],"b":{}}`: "members", `{}`: "members", `{"a":{"id":1}}`: "members",
		`{"a":1.50}`: "both", `{"a":1e3}`: "both", `{"a":123456789012345678901}`: "both", `{"a":-0}`: "both", `{"a":1,"a":2}`: "both",
		`{"id":"x"}`: "wrapped", `{"last_modified":1}`: "wrapped", `{"deleted":true}`: "wrapped", `{"schema":1}`: "wrapped", `{"feedctl":{}}`: "wrapped",
		`[]`: "wrapped", `"x"`: "wrapped", `{`: "wrapped", `{"a":"\u0000"}`: "wrapped", `{"\u0000":1}`: "wrapped", `{"a":1e400}`: "wrapped", `{"a":"\ud800"}`: "wrapped",
	} {
		if got := kinto.Form("application/json", body); got != want {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
}
