package verify_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/verify"
)

// recorded responds with recorded responses of the Java library 1.0.1: see the README in
// recordings.
type recorded map[string][]byte // by path

const recordings = "../consumer/testdata/java-library-1.0.1"

func (s recorded) add(t *testing.T, path, name string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(recordings, name))
	if err != nil {
		t.Fatal(err)
	}
	s[path] = bytes.ReplaceAll(data, []byte("HOST"), []byte("feed.test"))
}

func (s recorded) RoundTrip(r *http.Request) (*http.Response, error) {
	head, body, _ := bytes.Cut(s[r.URL.Path], []byte("\r\n\r\n"))
	_, fields, _ := bytes.Cut(head, []byte("\r\n"))
	header, err := textproto.NewReader(bufio.NewReader(io.MultiReader(bytes.NewReader(fields), strings.NewReader("\r\n\r\n")))).ReadMIMEHeader()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.URL, err)
	}
	if r.Method == http.MethodHead {
		body = nil
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header(header), Request: r, Body: io.NopCloser(bytes.NewReader(body))}, nil
}

// TestJavaLibrary checks the recorded feed and snapshot. The only violations are that the pages of
// the snapshot have no Last-Modified.
func TestJavaLibrary(t *testing.T) {
	s := recorded{}
	s.add(t, "/feed/f", "feed-page-from-newest-0.http")
	s.add(t, "/snap", "snapshot-index.http")
	for n := range 7 {
		name := fmt.Sprintf("feed-page-from-newest-%d.http", n)
		s.add(t, "page", name)
		_, boundary, _ := strings.Cut(string(s["page"]), `boundary="_---_`)
		id, _, _ := strings.Cut(boundary, `"`)
		s.add(t, "/feed/f/"+id, name)
	}
	for n := range 3 {
		name := fmt.Sprintf("snapshot-page-%d.http", n)
		s.add(t, "page", name)
		_, boundary, _ := strings.Cut(string(s["page"]), `boundary="_---_`)
		id, _, _ := strings.Cut(boundary, `"`)
		s.add(t, "/snap/9d46b4a3-2d3f-4b27-89bc-5b1054d77c3e/"+id, name)
	}
	config := verify.Config{HTTPClient: &http.Client{Transport: s}, TempDir: t.TempDir()}
	report, err := verify.Feed(t.Context(), "http://feed.test/feed/f", config)
	if err != nil {
		t.Fatal(err)
	}
	if err := report.Err(); err != nil || report.Pages != 7 || report.Entities != 21 {
		t.Errorf("feed: %d pages, %d entities: %v", report.Pages, report.Entities, err)
	}
	report, err = verify.Snapshot(t.Context(), "http://feed.test/snap", config)
	if err != nil {
		t.Fatal(err)
	}
	var rules []verify.Rule
	for _, v := range report.Violations {
		rules = append(rules, v.Rule)
	}
	if want := slices.Repeat([]verify.Rule{verify.PageHeader}, 3); !slices.Equal(rules, want) || report.Entities != 7 {
		t.Errorf("snapshot: %d entities: %v", report.Entities, report.Err())
	}
}
