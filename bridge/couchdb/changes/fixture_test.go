package changes_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/bridge/couchdb/changes"
	"github.com/feedctl/feedctl/couchdb"
	"github.com/feedctl/feedctl/internal/memnet"
)

// A recording is a response of Apache CouchDB 3.5.2, as captured with curl -i.
type recording struct {
	status int
	header http.Header
	body   []byte
}

func readRecording(t *testing.T, path string) recording {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text[0] == '#' { // the request
		_, text, _ = bytes.Cut(text, []byte("\n"))
	}
	head, body, _ := bytes.Cut(text, []byte("\r\n\r\n"))
	answer, err := http.ReadResponse(bufio.NewReader(io.MultiReader(bytes.NewReader(head), strings.NewReader("\r\n\r\n"))), nil)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	answer.Header.Del("Content-Length") // curl added a line
	return recording{answer.StatusCode, answer.Header, body}
}

func (r recording) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	for name, values := range r.header {
		w.Header()[name] = values
	}
	w.WriteHeader(r.status)
	send(w, string(r.body))
}

// A recordedRow is a line of a response, as another decoder reads it.
type recordedRow struct {
	Seq     json.RawMessage
	ID      string
	Changes []struct{ Rev string }
	Deleted bool
	Doc     json.RawMessage
}

// rows returns the rows, and the sequence to continue from.
func (r recording) rows(t *testing.T) (rows []recordedRow, last json.RawMessage) {
	t.Helper()
	for line := range strings.Lines(string(r.body)) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, `{"seq":`):
			var row recordedRow
			if err := json.Unmarshal([]byte(strings.TrimSuffix(line, ",")), &row); err != nil {
				t.Fatal(err)
			}
			rows = append(rows, row)
			if string(row.Seq) != "null" {
				last = row.Seq
			}
		case strings.HasPrefix(line, `{"last_seq":`), strings.HasPrefix(line, `"last_seq":`):
			var end struct {
				Seq json.RawMessage `json:"last_seq"`
			}
			if err := json.Unmarshal([]byte("{"+strings.TrimPrefix(line, "{")), &end); err != nil {
				t.Fatal(err)
			}
			last = end.Seq
		}
	}
	return rows, last
}

// TestFixtures follows recorded responses of Apache CouchDB.
func TestFixtures(t *testing.T) {
	const dir = "testdata/couchdb-3.5.2/"
	live, poll := changes.Options{Feed: changes.Continuous}, changes.Options{Feed: changes.LongPoll}
	options := map[string]changes.Options{ // of the request
		"05-changes-seq_interval3":                    {SeqInterval: 3},
		"12-conflict-all_docs-include_docs-conflicts": {AllDocs: true, IncludeDocs: true},
		"14-deleted-include_docs":                     {IncludeDocs: true},
		"20-att-changes-include_docs":                 {IncludeDocs: true},
		"21-att-changes-attachments=true":             {IncludeDocs: true},
		"23-att-changes-attachments+enc":              {IncludeDocs: true},
		"30-continuous-heartbeat1000-since-now":       live,
		"31-continuous-timeout2000-since-now":         live,
		"32-continuous-timeout1000-since0":            live,
		"33-longpoll-timeout1500-since-now":           poll,
		"34-longpoll-heartbeat500-with-write":         poll,
	}
	paths, err := filepath.Glob(dir + "*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".txt")
		if name == "00-root" || name == "08-dbinfo" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				recorded := readRecording(t, path)
				server := http.NewServeMux()
				server.Handle("/{$}", readRecording(t, dir+"00-root.txt"))
				server.Handle("/samples", readRecording(t, dir+"08-dbinfo.txt"))
				asked := 0
				server.HandleFunc("/samples/_changes", func(w http.ResponseWriter, r *http.Request) {
					if asked++; asked == 1 {
						recorded.ServeHTTP(w, r)
						return
					}
					beat(map[string]string{"longpoll": `{"results":[`}[r.URL.Query().Get("feed")])(w, r)
				})
				db, err := couchdb.Open(couchdb.Config{URL: "http://couch.test/samples", HTTP: memnet.New(t, server).Client()})
				if err != nil {
					t.Fatal(err)
				}
				rows, last := recorded.rows(t)
				f := follow(t, db, options[name])
				var got []recordedRow
				for err == nil {
					var b *changes.Batch
					if b, err = next(t, f, time.Hour); err != nil {
						break
					}
					for _, row := range b.Rows {
						got = append(got, asRecorded(t, row))
					}
					f.Confirm(b)
				}
				var refused *couchdb.Error
				switch {
				case recorded.status != http.StatusOK:
					if !errors.As(err, &refused) || refused.Status != recorded.status || refused.Reason == "" {
						t.Errorf("the feed ended with %v", err)
					}
				case options[name].Feed == changes.Normal && err != io.EOF, options[name].Feed != changes.Normal && err != errNothing:
					t.Errorf("the feed ended with %v", err)
				}
				if diff := cmp.Diff(rows, got); diff != "" {
					t.Errorf("rows (-want +got):\n%s", diff)
				}
				if string(f.Position()) != string(last) {
					t.Errorf("position is %s, want %s", f.Position(), last)
				}
				if recorded.status == http.StatusOK && f.Instance() == "" {
					t.Error("the instance of the database is unknown")
				}
			})
		})
	}
}

// asRecorded returns a row as the other decoder reads it.
func asRecorded(t *testing.T, row changes.Row) recordedRow {
	t.Helper()
	if row.Err != nil {
		t.Fatalf("%s: %v", row.Raw, row.Err)
	}
	r := recordedRow{Seq: row.Seq, ID: row.ID, Deleted: row.Deleted}
	if r.Seq == nil {
		r.Seq = json.RawMessage("null")
	}
	for _, rev := range row.Revs {
		r.Changes = append(r.Changes, struct{ Rev string }{rev})
	}
	if row.Doc != nil {
		r.Doc = row.Doc.Bytes()
		if row.Meta.ID != row.ID || row.Meta.Rev != row.Revs[0] || row.Meta.Deleted != row.Deleted {
			t.Errorf("%s has a document %+v", row.ID, row.Meta)
		}
	}
	return r
}
