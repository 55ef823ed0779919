package kinto

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/feed"
)

// files are the attachments of a server, by path, on another host.
type files struct {
	t     *testing.T
	files map[string]string
}

func (f *files) RoundTrip(q *http.Request) (*http.Response, error) {
	switch {
	case q.URL.Host == "cdn":
		if q.Header.Get("Authorization") != "" {
			f.t.Error("credentials are sent to another host")
		}
		content, ok := f.files[strings.TrimPrefix(q.URL.Path, "/files/")]
		if !ok {
			return answer(q, http.StatusNotFound, http.Header{}, "no"), nil
		}
		return answer(q, http.StatusOK, http.Header{}, content), nil
	case strings.HasSuffix(q.URL.Path, "/v1/"):
		return answer(q, http.StatusOK, http.Header{}, `{"http_api_version":"1.23","capabilities":{"attachments":{"base_url":"http://cdn/files/"}}}`), nil
	}
	return http.DefaultTransport.RoundTrip(q)
}

// attach writes a record with an attachment.
func (r *rig) attach(id, location, content string, size int) {
	sum := sha256.Sum256([]byte(content))
	r.put(id, fmt.Sprintf(`"a":1,"attachment":{"filename":"f","hash":%q,"location":%q,"mimetype":"text/plain","size":%d},"z":2`,
		hex.EncodeToString(sum[:]), location, size))
}

// TestAttachments: the file is in the feed before its record, once for each content, and is deleted with
// the record.
func TestAttachments(t *testing.T) {
	r := newRig(t)
	all := &files{t, map[string]string{"one": "hello", "two": strings.Repeat("x", 100_000)}}
	r.client.HTTP = &http.Client{Transport: all}
	r.configure = func(c *Config) { c.Attachments = Inline }
	r.attach("a", "one", "hello", 5)
	r.attach("b", "http://cdn/files/two", all.files["two"], 100_000)
	r.attach("missing", "three", "", 0)
	r.attach("wrong", "one", "other", 5)
	r.attach("short", "one", "hello", 6)
	report := r.run()
	if report.Published != 4 || report.Quarantined != 3 {
		t.Errorf("report is %+v", report)
	}
	got := r.fold()
	if got["a/attachment"] != "hello" || got["b/attachment"] != all.files["two"] || got["a"] != r.listed()["a"] {
		t.Errorf("%.300v", got)
	}
	if events := r.events(); events[0].ID != "a/attachment" || events[0].MediaType != "text/plain" || events[1].ID != "a" {
		t.Errorf("%+v", events[:2])
	}
	r.put("a", `"attachment":null`)
	r.put("b", strings.Trim(strings.Split(r.listed()["b"], `,"id"`)[0], "{}")+`,"more":1`)
	r.delete("missing")
	if report := r.run(); report.Published != 3 { // a, its attachment, b
		t.Errorf("report is %+v", report)
	}
	r.delete("b")
	if report := r.run(); report.Published != 2 {
		t.Errorf("report is %+v", report)
	}
	if got := r.fold(); len(got) != 1 {
		t.Errorf("%v", got)
	}
	all.files["one"] = "other"
	b := r.open(r.store)
	retried, err := b.Retry(t.Context())
	if err := errors.Join(err, b.Close()); err != nil || retried.Published != 2 || retried.Left != 1 {
		t.Errorf("%+v, %v", retried, err)
	}
}

// TestWithoutAttachments: the member is removed from records, and nothing else changes.
func TestWithoutAttachments(t *testing.T) {
	r := newRig(t)
	r.configure = func(c *Config) { c.Attachments = None }
	r.attach("a", "one", "hello", 5)
	r.put("b", `"n":1.50`)
	r.run()
	for _, e := range r.events() {
		if e.Op != feed.Put || strings.Contains(e.Body, "attachment") {
			t.Errorf("%+v", e)
		}
	}
	if got := r.fold(); !strings.HasPrefix(got["a"], `{"a":1,"z":2,`) || got["b"] != r.listed()["b"] {
		t.Errorf("%v", got)
	}
}
