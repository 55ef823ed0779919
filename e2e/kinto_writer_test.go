package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/feedctl/feedctl/internal/kintotest"
)

// A kintoWriter creates, updates and deletes the records of a collection. It uses only HTTP, and
// continues when the server is available again.
type kintoWriter struct {
	rng        *rand.Rand
	collection string // its URL
	done       atomic.Int64
}

// write makes one change. If the change may have no effect, write also changes the record that counts the changes, so the
// feed always gets one more entity.
func (w *kintoWriter) write(ctx context.Context) error {
	method, path, body := w.change()
	if err := w.try(ctx, method, path, body); err != nil {
		return err
	}
	done := w.done.Add(1)
	if method == http.MethodPut {
		return nil
	}
	return w.try(ctx, http.MethodPut, w.collection+"/records/count", fmt.Sprintf(`{"data":{"done":%d}}`, done))
}

// kintoRecordCount is the number of records that a kintoWriter changes at random.
const kintoRecordCount = 40

// kintoIDs returns the ids of all records that a kintoWriter writes.
func kintoIDs() []string {
	ids := []string{kintoRecordCount: "count"}
	for n := range kintoRecordCount {
		ids[n] = "d" + strconv.Itoa(n)
	}
	return ids
}

// try repeats a request until the server has responded.
func (w *kintoWriter) try(ctx context.Context, method, path, body string) error {
	for {
		status, answer, err := w.send(ctx, method, path, body)
		switch {
		case err == nil && (status/100 == 2 || status == http.StatusNotFound):
			return nil
		case err == nil && status != http.StatusConflict && status < 500:
			return fmt.Errorf("%s %s: status %d: %s", method, path, status, answer)
		}
		select { // the server is unavailable, or reports a conflict
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// change returns a random request that may change something.
func (w *kintoWriter) change() (method, path, body string) {
	root, rest, _ := strings.Cut(w.collection, "/buckets/")
	record := func() string { return "/records/" + kintoIDs()[w.rng.IntN(kintoRecordCount)] }
	content := func() string {
		return [...]string{
			fmt.Sprintf(`{"text":"%x <é>","n":%d.5}`, w.rng.Uint64(), w.rng.IntN(1000)),
			`{"deleted":true}`, // looks like a tombstone
			fmt.Sprintf(`{"nested":{"deleted":false,"list":[null,%d,"\u2028"]}}`, w.rng.Int64N(1<<53)),
		}[w.rng.IntN(3)]
	}
	switch n := w.rng.IntN(20); {
	case n == 0: // deletes a page of records
		return http.MethodDelete, w.collection + "/records", ""
	case n < 5:
		return http.MethodDelete, w.collection + record(), ""
	case n < 8:
		return http.MethodPatch, w.collection + record(), `{"data":{"patched":` + strconv.Itoa(w.rng.IntN(1000)) + `}}`
	case n < 11:
		var requests []string
		for range 1 + w.rng.IntN(24) {
			part := `{"method":"PUT","path":"/buckets/` + rest + record() + `","body":{"data":` + content() + `}}`
			if w.rng.IntN(3) == 0 {
				part = `{"method":"DELETE","path":"/buckets/` + rest + record() + `"}`
			}
			requests = append(requests, part)
		}
		return http.MethodPost, root + "/batch", `{"requests":[` + strings.Join(requests, ",") + `]}`
	}
	return http.MethodPut, w.collection + record(), `{"data":` + content() + `}`
}

func (w *kintoWriter) send(ctx context.Context, method, url, body string) (status int, answer []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	r.SetBasicAuth(kintotest.User, kintotest.Password)
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	return response.StatusCode, answer, err
}

// kintoRecords returns the records of a collection, by id, as the server sends them.
func kintoRecords(t *testing.T, collection string) map[string]json.RawMessage {
	t.Helper()
	records := map[string]json.RawMessage{}
	for url := collection + "/records?_sort=last_modified"; url != ""; {
		response, answer := kintotest.Try(t, http.MethodGet, url, "")
		var page struct{ Data []json.RawMessage }
		if err := json.Unmarshal([]byte(answer), &page); err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s: %s", url, response.Status, answer)
		}
		for _, record := range page.Data {
			var r struct{ ID string }
			if err := json.Unmarshal(record, &r); err != nil {
				t.Fatalf("%s: %v", record, err)
			}
			records[r.ID] = record
		}
		url = response.Header.Get("Next-Page")
	}
	return records
}

// kintoStamp returns the stamp of a collection.
func kintoStamp(t *testing.T, collection string) int64 {
	t.Helper()
	response, _ := kintotest.Try(t, http.MethodHead, collection+"/records", "")
	stamp, err := strconv.ParseInt(strings.Trim(response.Header.Get("ETag"), `"`), 10, 64)
	if err != nil {
		t.Fatalf("%s: %s, ETag %q", collection, response.Status, response.Header.Get("ETag"))
	}
	return stamp
}
