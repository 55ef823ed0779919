package couchdb_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

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

// TestDamagedLog has no sink advance over a commit that it cannot complete.
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
