package verify

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestDuplicates compares the duplicates found by sorting on disk with those found with a map.
func TestDuplicates(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{0, 1, 2, 7, 8, 9, 100, 5000} {
		dir := t.TempDir()
		seen := newIDs(dir, 8)
		first := make(map[string]int)
		var want, got []string
		for i := range n {
			id := fmt.Sprint(r.IntN(n + n/2))
			if err := seen.add([]byte(id), i/10, i%10, int64(i)); err != nil {
				t.Fatal(err)
			}
			if at, ok := first[id]; ok {
				want = append(want, fmt.Sprint(at, i))
			} else {
				first[id] = i
			}
		}
		if err := seen.duplicates(func(first, again occurrence) {
			if int64(first.page*10+first.part) != first.offset || int64(again.page*10+again.part) != again.offset {
				t.Errorf("occurrences are mixed up: %+v %+v", first, again)
			}
			got = append(got, fmt.Sprint(first.offset, again.offset))
		}); err != nil {
			t.Fatal(err)
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(want, got) {
			t.Errorf("%d Content-IDs: %d duplicates, want %d", n, len(got), len(want))
		}
		if err := seen.close(); err != nil {
			t.Error(err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	}
}

func TestDuplicatesFullDisk(t *testing.T) {
	seen := newIDs(t.TempDir()+"/none", 1)
	if err := seen.add([]byte("a"), 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	if err := seen.add([]byte("b"), 0, 1, 0); err == nil {
		t.Error("a failure to write Content-IDs was not reported")
	}
}

// TestStall: a request fails if the server sends nothing, or almost nothing, for too long, whether
// before the header or within the body.
func TestStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, err := newFetcher(Config{HTTPClient: &http.Client{Transport: stalling{}}}, "http://x/")
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if _, err := f.do(t.Context(), http.MethodGet, "http://x/header"); !errors.Is(err, errStalled) {
			t.Errorf("no headers: %v", err)
		}
		if waited := time.Since(start); waited != stallLimit {
			t.Errorf("gave up after %v", waited)
		}
		response, err := f.do(t.Context(), http.MethodGet, "http://x/body")
		if err != nil {
			t.Fatal(err)
		}
		body := bodyReader{reader: response.Body}
		body.drain()
		if !errors.Is(body.err, errStalled) || body.size != stallBytes+9 {
			t.Errorf("%d bytes, then %v", body.size, body.err)
		}
		if err := response.Body.Close(); err != nil {
			t.Error(err)
		}
	})
}

// stalling responds shortly before the time limit. The first bytes of the body also arrive shortly
// before the time limit, and then one byte every seven seconds, for ever. There is no response to
// /header.
type stalling struct{}

func (stalling) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path == "/header" {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	time.Sleep(stallLimit - 1)
	body, w := io.Pipe()
	go func() {
		time.Sleep(stallLimit - 1)
		_, _ = w.Write(make([]byte, stallBytes))
		for r.Context().Err() == nil {
			time.Sleep(7 * time.Second)
			_, _ = w.Write([]byte("x"))
		}
		w.CloseWithError(r.Context().Err())
	}()
	return &http.Response{StatusCode: http.StatusOK, Body: body, Request: r}, nil
}

// TestRulesHaveRemedies: each rule has its own remedy.
func TestRulesHaveRemedies(t *testing.T) {
	for _, r := range []Rule{
		Reachable, MediaType, PageHeader, PageFormat, EntityHeader, OperationType, ContentLength, ReprDigest, Changed,
		LinkSyntax, SelfLink, Symmetry, Loop, Timeline, Head, TimeOrder, PageTime, DuplicateID, Caching,
		IndexSchema, AbsoluteURL, CreatedAt, EntityCount, Chain, BodyDigest, Metadata, Gap, StrayObject,
	} {
		if r.Remedy() == "" {
			t.Errorf("rule %s has no remedy", r)
		}
	}
}
