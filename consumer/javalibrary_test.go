package consumer

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/textproto"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/feed"
)

// recordings is the directory of recorded responses of the Java library 1.0.1; see its README.
const recordings = "testdata/java-library-1.0.1"

// A recorded server returns recorded responses, by path.
type recorded map[string]recordedAnswer

type recordedAnswer struct {
	header http.Header
	body   []byte
}

func (s recorded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, ok := s[r.URL.Path]
	response := &http.Response{StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: answer.header.Clone(), Request: r, ContentLength: -1, Body: http.NoBody}
	switch {
	case !ok:
		response.StatusCode = http.StatusNotFound
	case r.Method == http.MethodGet:
		response.Body = io.NopCloser(bytes.NewReader(answer.body))
	}
	return response, nil
}

// add adds a recorded response for the path.
func (s recorded) add(t *testing.T, path, name string) {
	t.Helper()
	data := readRecording(t, name)
	data = bytes.ReplaceAll(data, []byte("HOST"), []byte("feed.test"))
	head, body, _ := bytes.Cut(data, []byte("\r\n\r\n"))
	_, head, _ = bytes.Cut(head, []byte("\r\n")) // the status line
	header, err := textproto.NewReader(bufio.NewReader(bytes.NewReader(append(head, "\r\n\r\n"...)))).ReadMIMEHeader()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	header.Del("Content-Length") // the recorded host name had a different length
	s[path] = recordedAnswer{http.Header(header), body}
}

func readRecording(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(recordings, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// newRecorded returns the complete recorded server, with the feed at /feed/f and the snapshot at /snap.
func newRecorded(t *testing.T) recorded {
	s := recorded{}
	s.add(t, "/feed/f", "feed-page-from-newest-0.http")
	for n := range 7 {
		name := fmt.Sprintf("feed-page-from-newest-%d.http", n)
		s.add(t, "page", name)
		self, _, _ := strings.Cut(strings.TrimPrefix(s["page"].header.Get("Link"), "<http://feed.test"), ">")
		s.add(t, self, name)
	}
	s.add(t, "/snap", "snapshot-index.http")
	var index struct{ Pages []string }
	if err := json.Unmarshal(s["/snap"].body, &index); err != nil || len(index.Pages) != 3 {
		t.Fatal(index, err)
	}
	for n, page := range index.Pages {
		s.add(t, strings.TrimPrefix(page, "http://feed.test"), fmt.Sprintf("snapshot-page-%d.http", n))
	}
	return s
}

func (s recorded) client(t *testing.T, c Config) *Client {
	t.Helper()
	c.HTTPClient = &http.Client{Transport: s}
	client, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// A javaEntity is a line of feed-entities.jsonl.
type javaEntity struct {
	LM   time.Time
	Op   feed.Operation
	ID   string
	CT   string
	Body []byte
}

func javaEntities(t *testing.T) (all []javaEntity) {
	decoder := json.NewDecoder(bytes.NewReader(readRecording(t, "feed-entities.jsonl")))
	for {
		var e javaEntity
		switch err := decoder.Decode(&e); err {
		case nil:
			e.LM = feed.Truncate(e.LM)
			all = append(all, e)
		case io.EOF:
			return all
		default:
			t.Fatal(err)
		}
	}
}

// TestJavaLibraryFeed reads the recorded feed from its beginning and from each of its entities.
func TestJavaLibraryFeed(t *testing.T) {
	client := newRecorded(t).client(t, Config{})
	read := func(start Start) (all []javaEntity, ends []feed.Position) {
		for e, err := range client.Entities(t.Context(), "http://feed.test/feed/f", start) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, javaEntity{e.LastModified, e.Operation, e.ContentID, e.ContentType, bytes.Clone(e.Body)})
			ends = append(ends, e.Position())
		}
		return all, ends
	}
	want := javaEntities(t)
	got, ends := read(Beginning())
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
	for n, end := range ends {
		if rest, _ := read(After(end)); len(rest) != len(want)-n-1 || len(rest) > 0 && rest[0].ID != want[n+1].ID {
			t.Errorf("after entity %d: %d entities", n, len(rest))
		}
	}
}

// TestJavaLibrarySnapshot reads the recorded snapshot, unchanged and without the entities'
// Last-Modified, which the library omits by default.
func TestJavaLibrarySnapshot(t *testing.T) {
	for name, undated := range map[string]bool{"as it is": false, "without Last-Modified": true} {
		t.Run(name, func(t *testing.T) {
			server := newRecorded(t)
			want := time.Date(2024, 3, 1, 12, 0, 0, 0, time.UTC)
			if undated {
				want = time.Date(2024, 3, 1, 12, 0, 1, 0, time.UTC) // createdAt
				for path, answer := range server {
					answer.body = bytes.ReplaceAll(answer.body, []byte("Last-Modified: Fri, 01 Mar 2024 12:00:00 GMT\r\n"), nil)
					server[path] = answer
				}
			}
			var log bytes.Buffer
			client := server.client(t, Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			var keys []string
			for e, err := range client.Snapshot(t.Context(), "http://feed.test/snap", feed.SnapshotPosition{}) {
				if err != nil {
					t.Fatal(err)
				}
				if !e.LastModified.Equal(want) {
					t.Errorf("%s is of %v, want %v", e.Key(), e.LastModified, want)
				}
				keys = append(keys, e.Key())
			}
			if got := strings.Join(keys, " "); got != "k0 k1 k2 k3 k4 k5 k6" {
				t.Errorf("read %s", got)
			}
			if got := strings.Count(log.String(), "level=WARN"); got != map[bool]int{true: 1}[undated] {
				t.Errorf("%d warnings:\n%s", got, &log)
			}
		})
	}
}

// A verdict is an element of verdicts.json.
type verdict struct {
	N       int
	Name    string
	Headers [][2]string
	Body    []byte
	Library string
}

// deviations returns the numbers of the variants on which this consumer and the library disagree, with
// the reasons for the consumer's verdicts. "spec" is the specification of datareplication.io; where it
// is silent, the RFCs that it refers to decide.
func deviations() map[int]string {
	return map[int]string{
		// Refused here, accepted by the library.
		4:   "a media type has a subtype (RFC 9110, section 8.3.1)",
		16:  "of two boundaries neither can be trusted",
		20:  "a boundary does not end with a space (RFC 2046, section 5.1.1)",
		70:  "Last-Modified is an HTTP date, in GMT (spec, Last-Modified; RFC 9110, section 5.6.7)",
		72:  "as 70",
		74:  "an HTTP date has seconds",
		76:  "an HTTP date has a day of the week",
		84:  "the names in an HTTP date are case-sensitive (RFC 9110, section 5.6.7)",
		108: "Content-ID is required and unique in a feed (spec, Additional headers)",
		118: "of two Content-IDs neither can be trusted, and a position needs one",
		120: "of two Content-Types neither can be trusted",
		122: "Content-ID is not a list (RFC 9110, section 5.3)",
		124: "a line that begins with a blank continues the one before it (RFC 5322, section 2.2.3)",
		126: "a field has a name (RFC 9110, section 5.1)",
		128: "a name has no space (RFC 9110, section 5.6.2)",
		132: "a value has no NUL (RFC 9110, section 5.5)",
		134: "memory is bounded: a header has 64 KiB at most",
		138: "a body that is not as long as its Content-Length says has lost or gained bytes on the way",
		140: "as 138",
		142: "a Content-Length is decimal digits (RFC 9110, section 8.6)",
		144: "as 142",
		146: "as 142",
		180: "time never decreases in a feed (spec, Last-Modified)",

		// Accepted here, refused by the library.
		14:  "the quotes are those of the specification's own example",
		18:  "a boundary that can be found can be used",
		26:  "a quote without its end leaves no doubt about the boundary; verify reports it",
		38:  "relations are compared without regard to case (RFC 8288, section 2.1)",
		40:  "a target may be relative (RFC 8288, section 3.1)",
		42:  "links with other relations are ignored (RFC 8288, section 3.3)",
		56:  "a parameter may have no value (RFC 8288, section 3)",
		68:  "a wrong weekday leaves no doubt about the date; verify reports it",
		78:  "RFC 850 dates must be read (RFC 9110, section 5.6.7)",
		80:  "asctime dates must be read (RFC 9110, section 5.6.7)",
		102: "the name is compared without regard to case, as field names are",
		136: "bytes beyond ASCII are opaque data (RFC 9110, section 5.5)",
		156: "white space may follow a boundary on its line (RFC 2046, section 5.1.1)",
		170: "a line that continues after the boundary is not a delimiter line; verify reports it",
		172: "the Content-Length says where the body ends; verify reports it",
		184: "a server may say that it has applied no coding (RFC 9110, section 12.5.3)",
	}
}

// TestJavaLibraryVerdicts reads the same variants of a page as the library's consumer did, and compares
// the verdicts except for the deviations.
func TestJavaLibraryVerdicts(t *testing.T) {
	var verdicts []verdict
	if err := json.Unmarshal(readRecording(t, "verdicts.json"), &verdicts); err != nil {
		t.Fatal(err)
	}
	differ := deviations()
	for _, v := range verdicts {
		t.Run(fmt.Sprintf("%d %s", v.N, v.Name), func(t *testing.T) {
			answer := recordedAnswer{http.Header{}, v.Body}
			for _, h := range v.Headers {
				answer.header.Add(h[0], strings.ReplaceAll(h[1], "HOST", "feed.test"))
			}
			synctest.Test(t, func(t *testing.T) { // in fake time, because refused responses are retried
				client := recorded{"/v": answer}.client(t, Config{})
				var refused error
				for _, err := range client.Entities(t.Context(), "http://feed.test/v", Beginning()) {
					refused = err
				}
				why, deviates := differ[v.N]
				if agrees := (refused == nil) == (v.Library == "accepts"); agrees == deviates {
					t.Errorf("the library %s it, the consumer's error is %v; deviation: %q", v.Library, refused, why)
				}
			})
		})
	}
}
