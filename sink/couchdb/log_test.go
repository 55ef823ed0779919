package couchdb_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/couchtest"
	"github.com/feedctl/feedctl/sink/sinktest"
)

const logURL = "/_local/feedctl-sink-feedctl-log-0"

// interrupted returns a database with a commit that ended before its first document.
func interrupted(t *testing.T) (to string) {
	t.Helper()
	to = couchtest.NewDB(t)
	broken := errors.New("interrupted, for a test")
	k := open(t, to, func(r *http.Request) (*http.Response, error) {
		if strings.HasSuffix(r.URL.Path, "/_bulk_docs") {
			return nil, broken
		}
		return http.DefaultTransport.RoundTrip(r)
	})
	if err := sinktest.Write(t.Context(), k, put(1, "a", `{"n":1}`), put(2, "b", `{"n":2}`)); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	return to
}

// changeLog changes the log of an interrupted commit.
func changeLog(t *testing.T, to string, change func(log map[string]any)) {
	t.Helper()
	var log map[string]any
	get(t, to+logURL, &log)
	change(log)
	text, err := json.Marshal(log)
	if err != nil {
		t.Fatal(err)
	}
	couchtest.Send(t, http.MethodPut, to+logURL, string(text))
}

// TestEarlierLog completes a commit with the log of an earlier version.
func TestEarlierLog(t *testing.T) {
	to := interrupted(t)
	changeLog(t, to, func(log map[string]any) {
		var writes []any
		for i, id := range []string{"a", "b"} {
			content := put(i+1, id, "").ContentID
			writes = append(writes, map[string]any{"id": id, "content_id": content, "doc": json.RawMessage(
				fmt.Sprintf(`{"_id":%q,"n":%d,"feedctl":{"contentId":%q,"contentType":"application/json","headers":{}}}`, id, i+1, content))})
		}
		log["step"], log["writes"] = log["of"], writes
		delete(log, "of")
		delete(log, "packed")
	})
	k := open(t, to, nil)
	if at, err := k.Position(t.Context()); err != nil || at.ContentID != put(2, "b", "").ContentID {
		t.Errorf("position %+v, %v", at, err)
	}
	checkDocuments(t, to, map[string]string{"a": `{"n":1}`, "b": `{"n":2}`})
}

// TestDamagedLog: no sink advances over a commit that it cannot complete.
func TestDamagedLog(t *testing.T) {
	for name, change := range map[string]func(map[string]any){
		"other step": func(log map[string]any) { log["of"] = "another" },
		"cut":        func(log map[string]any) { p := log["packed"].(string); log["packed"] = p[:len(p)/8*4] },
		"emptied":    func(log map[string]any) { delete(log, "packed") },
		"replaced":   func(log map[string]any) { delete(log, "of"); delete(log, "packed") },
	} {
		t.Run(name, func(t *testing.T) {
			to := interrupted(t)
			changeLog(t, to, change)
			if k, err := impatient(t.Context(), to, 1, nil); err == nil {
				k.Close()
				t.Error("the sink can be opened")
			} else if !strings.Contains(err.Error(), "read log") {
				t.Errorf("error %v does not name the log", err)
			}
			checkDocuments(t, to, map[string]string{})
		})
	}
}

// sizes makes requests, and records the number of documents in each _bulk_docs and the names of the parts of the
// log that are written or read.
type sizes struct {
	docs []int
	log  []string
}

func (s *sizes) through(r *http.Request) (*http.Response, error) {
	switch name := path.Base(r.URL.Path); {
	case name == "_bulk_docs":
		body, err := r.GetBody()
		if err != nil {
			return nil, err
		}
		var request struct {
			Docs []json.RawMessage `json:"docs"`
		}
		if err := json.NewDecoder(body).Decode(&request); err != nil {
			return nil, err
		}
		s.docs = append(s.docs, len(request.Docs))
	case strings.Contains(name, "-log-") && r.Method != http.MethodDelete:
		s.log = append(s.log, r.Method+" "+strings.TrimPrefix(name, "feedctl-sink-feedctl-"))
	}
	return http.DefaultTransport.RoundTrip(r)
}

func (s *sizes) check(t *testing.T, docs []int, log ...string) {
	t.Helper()
	if diff := cmp.Diff(sizes{docs, log}, *s, cmp.AllowUnexported(sizes{})); diff != "" {
		t.Errorf("documents of each _bulk_docs, and requests for the log (-want +got):\n%s", diff)
	}
}

// TestSizes: the documents and bytes of a request and of a part of the log are limited, even when a commit is
// completed.
func TestSizes(t *testing.T) {
	t.Parallel()
	to := couchtest.NewDB(t)
	var small, large []*feed.Entity
	for i := range 1100 {
		small = append(small, put(i, fmt.Sprintf("small-%d", i), `{}`))
	}
	for i := range 9 {
		large = append(large, put(2000+i, fmt.Sprintf("large-%d", i), fmt.Sprintf(`{"text":%q}`, strings.Repeat("x", 250_000))))
	}
	var first, second sizes
	broken := errors.New("interrupted, for a test")
	k := open(t, to, func(r *http.Request) (*http.Response, error) {
		if len(first.docs) == 6 { // the second batch has written the first part of its log to the database
			return nil, broken
		}
		return first.through(r)
	})
	mustWrite(t, k, large...)
	if err := sinktest.Write(t.Context(), k, small...); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	first.check(t, []int{4, 4, 1, 500, 500, 100}, "PUT log-0", "PUT log-1", "PUT log-2", "PUT log-0")
	k = open(t, to, second.through)
	if at, err := k.Position(t.Context()); err != nil || at.ContentID != small[len(small)-1].ContentID {
		t.Errorf("position %+v, %v", at, err)
	}
	second.check(t, []int{500, 500, 100}, "GET log-0")
}
