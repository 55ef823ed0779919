package kintotest_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/httpfault"
	"github.com/feedctl/feedctl/internal/kintotest"
)

func TestFaults(t *testing.T) {
	f := kintotest.NewFake(t)
	url := f.NewCollection(t) + "/records"
	f.Inject(1, httpfault.On("GET", "/records"), kintotest.Refuse(503, 201, "later", "Retry-After", "7"))
	if r, answer := kintotest.Try(t, "GET", url, ""); r.StatusCode != 503 || r.Header.Get("Retry-After") != "7" || !strings.Contains(answer, `"errno":201`) {
		t.Errorf("refused: %s: %s", r.Status, answer)
	}
	f.Inject(1, httpfault.On("GET", "/records"), kintotest.WithHeader("Backoff", "3"))
	if r, answer := kintotest.Try(t, "GET", url, ""); r.StatusCode != 200 || r.Header.Get("Backoff") != "3" || answer != `{"data":[]}` {
		t.Errorf("Backoff: %s: %s", r.Status, answer)
	}
	f.Inject(1, httpfault.On("PUT", ""), kintotest.Lose())
	q, err := http.NewRequestWithContext(t.Context(), "PUT", url+"/a", strings.NewReader(`{"data":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	if r, err := http.DefaultClient.Do(q); err == nil {
		r.Body.Close()
		t.Errorf("a lost answer is %s", r.Status)
	}
	kintotest.Send(t, "GET", url+"/a", "")
	f.Inject(1, httpfault.On("GET", "/records"), httpfault.Cut(5))
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if got, err := io.ReadAll(r.Body); string(got) != `{"dat` || err == nil {
		t.Errorf("a cut answer is %s, %v", got, err)
	}
	arrived, release := make(chan struct{}), make(chan struct{})
	f.Inject(1, httpfault.On("GET", "/records"), kintotest.Hold(arrived, release))
	answer := make(chan string)
	go func() { answer <- kintotest.Send(t, "GET", url, "") }()
	<-arrived
	kintotest.Send(t, "DELETE", url+"/a", "")
	close(release)
	if got := <-answer; got != `{"data":[]}` {
		t.Errorf("a held answer is %s", got)
	}
}

// TestLateCommit: the stamp of a record that is committed late is below the timestamp of the
// collection, so the record is not in a list of changes since that timestamp.
func TestLateCommit(t *testing.T) {
	f := kintotest.NewFake(t)
	collection := f.NewCollection(t)
	commit := f.LateCommit(collection, "late", `{"n":1}`)
	r, _ := kintotest.Try(t, "PUT", collection+"/records/b", `{"data":{}}`)
	if stamp(r.Header) == "" {
		t.Fatal(r.Status)
	}
	kintotest.Send(t, "PUT", collection+"/records/c", `{"data":{}}`)
	r, before := kintotest.Try(t, "GET", collection+"/records", "")
	commit()
	if strings.Contains(before, "late") || kintotest.Send(t, "GET", collection+"/records?_since="+stamp(r.Header), "") != `{"data":[]}` {
		t.Errorf("before the commit: %s", before)
	}
	if again, _ := kintotest.Try(t, "GET", collection+"/records", "", "If-None-Match", r.Header.Get("ETag")); again.StatusCode != http.StatusNotModified {
		t.Errorf("after the commit: %s", again.Status)
	}
	if all := kintotest.Send(t, "GET", collection+"/records", ""); !strings.Contains(all, "late") {
		t.Errorf("after the commit: %s", all)
	}
}

func TestSnapshotAndPurge(t *testing.T) {
	f := kintotest.NewFake(t)
	collection := f.NewCollection(t)
	kintotest.Send(t, "PUT", collection+"/records/a", `{"data":{"n":1}}`)
	restore := f.Snapshot(collection)
	kintotest.Send(t, "PUT", collection+"/records/a", `{"data":{"n":2}}`)
	kintotest.Send(t, "PUT", collection+"/records/b", `{"data":{}}`)
	kintotest.Send(t, "DELETE", collection+"/records/b", "")
	f.Purge(collection)
	if got := kintotest.Send(t, "GET", collection+"/records?_since=0", ""); strings.Contains(got, "deleted") || !strings.Contains(got, `"n":2`) {
		t.Errorf("after the purge: %s", got)
	}
	restore()
	if got := kintotest.Send(t, "GET", collection+"/records?_since=0", ""); strings.Count(got, `"id"`) != 1 || !strings.Contains(got, `"n":1`) {
		t.Errorf("restored: %s", got)
	}
}

func TestChanges(t *testing.T) {
	f := kintotest.NewFake(t)
	f.Changes = true
	one, two := f.NewCollection(t), f.NewCollection(t)
	kintotest.Send(t, "PUT", one+"/records/a", `{"data":{}}`)
	changeset := f.URL() + "/buckets/monitor/collections/changes/changeset?_expected=0"
	if got := kintotest.Send(t, "GET", changeset, ""); strings.Count(got, `"bucket"`) != 2 {
		t.Errorf("changes: %s, want %s and %s", got, one, two)
	}
}

// BenchmarkFirstFill reads pages of 10,000 records of 400 bytes.
func BenchmarkFirstFill(b *testing.B) {
	f := kintotest.NewFake(b)
	collection := f.NewCollection(b)
	const n = 100_000
	text := strings.Repeat("x", 340)
	f.Fill(collection, n, func(i int) string { return fmt.Sprintf(`{"n":%d,"text":%q}`, i, text) })
	for b.Loop() {
		got := 0
		for next := collection + "/records?_sort=last_modified,id&min_last_modified=0"; next != ""; {
			r, err := http.Get(next)
			if err != nil {
				b.Fatal(err)
			}
			m, err := io.Copy(io.Discard, r.Body)
			r.Body.Close()
			if err != nil {
				b.Fatal(err)
			}
			got += int(m)
			next = r.Header.Get("Next-Page")
		}
		if got < 350*n {
			b.Fatalf("%d bytes", got)
		}
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "records/s")
}
