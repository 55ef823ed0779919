package couchdb_test

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/couchtest"
	"github.com/feedctl/feedctl/sink/patch"
	"github.com/feedctl/feedctl/sink/sinktest"
)

var allFaults = flag.Bool("all-faults", false, "also fail each request to real servers, and kill the server and the sink at each")

// oneOf returns n, so that every nth request is tested, or 1 if all are.
func oneOf(n int) int {
	if *allFaults {
		return 1
	}
	return n
}

// batches returns the batches that the tests below write. They cover everything that a sink does.
func batches(t testing.TB) [][]*feed.Entity {
	large := strings.Repeat("large ", 11_000)
	all := revisions(t, 50, true)
	return [][]*feed.Entity{
		{put(1, "a", `{"n":1}`), put(2, "b", `{"n":1.50}`), entity(3, feed.Put, "c", "text/plain", "text"), entity(4, feed.Put, "d", "text/plain", large), put(5, "e", `{}`), put(6, "a", `{"n":6,"log":[]}`)},
		{entity(11, feed.Patch, "a", patch.JSON, `[{"op":"add","path":"/log/-","value":11}]`), entity(12, feed.Delete, "b", "text/plain", ""), entity(13, feed.Delete, "never was", "text/plain", ""), put(14, "f", `{}`)},
		{entity(21, feed.Patch, "a", patch.JSON, `[{"op":"add","path":"/log/-","value":21}]`)},
		all[:5],
		append([]*feed.Entity{put(31, "b", `{"again":true}`), put(32, "g", `{}`)}, append(all[5:], entity(81, feed.Delete, "d", "text/plain", ""), entity(82, feed.Patch, "a", patch.Merge, `{"end":82}`))...),
		{entity(91, feed.Delete, "g", "text/plain", "")},
	}
}

// A fault happens to the nth request: the request or its response is lost, or the server is unavailable.
type fault struct {
	n    int
	kind string
	done int // requests so far
}

var errFault = errors.New("the connection broke, for a test")

func (f *fault) through(r *http.Request) (*http.Response, error) {
	f.done++
	if f.done != f.n {
		return http.DefaultTransport.RoundTrip(r)
	}
	switch f.kind {
	case "lost":
		return nil, errFault
	case "unavailable":
		return &http.Response{Status: "503", StatusCode: 503, Body: io.NopCloser(strings.NewReader("{}")), Request: r}, nil
	}
	response, err := http.DefaultTransport.RoundTrip(r)
	if err == nil {
		_, err = io.Copy(io.Discard, response.Body)
		response.Body.Close()
	}
	if err != nil {
		return nil, err
	}
	return nil, errFault
}

// TestFaults makes requests fail once: a random sample of them on a fake, and an eighth as many on a real
// server. If something was written twice or too late, the revisions differ from those of a run without
// faults. With -short, the sample is smaller, since a few cases are enough for the race detector.
func TestFaults(t *testing.T) {
	t.Parallel()
	for server, create := range map[string]func(testing.TB) string{"server": couchtest.NewDB, "fake": couchtest.NewFake(t).NewDB} {
		sparse := 1
		if server == "server" {
			sparse = oneOf(8)
		}
		if testing.Short() {
			sparse *= 4
		}
		for _, empty := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, empty %t", server, empty), func(t *testing.T) {
				t.Parallel()
				testFaults(t, sparse, func(t *testing.T) string { return prepared(t, create(t), empty) })
			})
		}
	}
}

func testFaults(t *testing.T, sparse int, newDB func(*testing.T) string) {
	all := batches(t)
	want := newDB(t)
	var clean fault
	if err := sinktest.Continue(t, open(t, want, clean.through), all); err != nil {
		t.Fatal(err)
	}
	leaves := leavesOf(t, want)
	for _, c := range []struct {
		kind  string
		tries int
		every int
	}{
		{"lost", 1, 5}, {"answer lost", 1, 3}, {"lost", 3, 20}, {"answer lost", 3, 10},
		{"unavailable", 3, 60}, // after which the client is slower for a while
	} {
		t.Run(fmt.Sprintf("%s, %d tries", c.kind, c.tries), func(t *testing.T) {
			every := sparse * oneOf(c.every)
			for n := 1 + rand.IntN(every); n <= clean.done; n += every {
				url := newDB(t)
				f := &fault{n: n, kind: c.kind}
				err := runThrough(t, url, c.tries, f, all)
				if c.tries > 1 && n > 2 && err != nil { // the first two requests do not belong to a step
					t.Errorf("request %d: %v", n, err)
				}
				if f.done < n {
					t.Fatalf("there were %d requests, want %d", f.done, n)
				}
				if diff := cmp.Diff(leaves, leavesOf(t, url)); diff != "" {
					t.Fatalf("request %d: leaves (-want +got):\n%s", n, diff)
				}
			}
		})
	}
}

// leavesOf returns the leaves of all documents. CouchDB and PouchDB derive the revision of a change
// from its content.
func leavesOf(t *testing.T, db string) map[string]any {
	t.Helper()
	var changes struct {
		Results []struct {
			ID      string `json:"id"`
			Changes any    `json:"changes"`
		} `json:"results"`
	}
	get(t, db+"/_changes?style=all_docs", &changes)
	leaves := make(map[string]any)
	for _, c := range changes.Results {
		leaves[c.ID] = c.Changes
	}
	return leaves
}

// runThrough consumes until it succeeds. It returns the error of the first try.
func runThrough(t *testing.T, url string, tries int, f *fault, all [][]*feed.Entity) (first error) {
	t.Helper()
	for range 3 {
		k, err := impatient(t.Context(), url, tries, f.through)
		if err == nil {
			err = sinktest.Continue(t, k, all)
			if err != nil { // the same sink continues, if it can
				first = err
				err = sinktest.Continue(t, k, all)
			}
			if err := k.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if err == nil {
			checkEnd(t, url, all)
			return first
		}
		first = err
	}
	t.Fatalf("after three runs: %v", first)
	return nil
}

func checkEnd(t *testing.T, url string, all [][]*feed.Entity) {
	t.Helper()
	k, err := impatient(t.Context(), url, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	at, err := k.Position(t.Context())
	last := all[len(all)-1]
	want := last[len(last)-1].ContentID
	if diff := cmp.Diff(want, at.ContentID); err != nil || diff != "" {
		t.Errorf("position (-want +got): %v\n%s", err, diff)
	}
}

// TestRestarts kills and restarts the server before each request.
func TestRestarts(t *testing.T) {
	t.Parallel()
	server := couchtest.StartOwn(t)
	all := [][]*feed.Entity{
		{put(1, "a", `{"n":1}`), put(2, "b", `{"n":1.50}`), entity(3, feed.Put, "c", "text/plain", strings.Repeat("large ", 11_000))},
		revisions(t, 50, true)[5:],
	}
	want, got := server.NewDB(t), server.NewDB(t)
	if err := sinktest.Continue(t, open(t, want, nil), all); err != nil {
		t.Fatal(err)
	}
	every := oneOf(5)
	requests := 0
	k := open(t, got, func(r *http.Request) (*http.Response, error) {
		if requests++; requests%every == 0 {
			server.Kill()
			if err := server.Restart(); err != nil {
				t.Error(err)
			}
			http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		}
		return http.DefaultTransport.RoundTrip(r)
	})
	if err := sinktest.Continue(t, k, all); err != nil {
		t.Fatal(err)
	}
	checkEqual(t, want, got)
}
