package kinto

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/bridge"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/kintotest"
)

// files serves the attachments of a Kinto server on another host, by path.
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

// TestAttachmentFails: an attachment whose server fails ends the run, and nothing is put into quarantine. The
// next run continues.
func TestAttachmentFails(t *testing.T) {
	for name, fails := range map[string]func(*http.Request) (*http.Response, error){
		"503": func(q *http.Request) (*http.Response, error) {
			return answer(q, http.StatusServiceUnavailable, http.Header{}, "no"), nil
		},
		"403": func(q *http.Request) (*http.Response, error) {
			return answer(q, http.StatusForbidden, http.Header{}, "no"), nil
		},
		"no response": func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF },
		"cut": func(q *http.Request) (*http.Response, error) {
			resp := answer(q, http.StatusOK, http.Header{}, "hello")
			resp.Body = &cutBody{resp.Body, 3}
			return resp, nil
		},
	} {
		for _, compare := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " compare ", compare), func(t *testing.T) {
				r := newRigOf(t, kintotest.NewFake(t).NewCollection(t))
				all := &files{t, map[string]string{"one": "hello"}}
				r.configure = func(c *Config) { c.Attachments, c.Attempts = Inline, 1 }
				r.client.HTTP = &http.Client{Transport: all}
				r.put("first", `"n":1`)
				r.run()
				r.attach("a", "one", "hello", 5)
				requests := 0
				r.client.HTTP = &http.Client{Transport: roundTrip(func(q *http.Request) (*http.Response, error) {
					if q.URL.Host != "cdn" {
						return all.RoundTrip(q)
					}
					requests++
					return fails(q)
				})}
				r.configure = func(c *Config) { c.Attachments, c.Attempts, c.ReconcileNow = Inline, 1, compare }
				report, err := r.tryRun(r.store)
				if err == nil || errors.Is(err, ErrRights) || report.Quarantined > 0 || report.Published > 0 {
					t.Errorf("report is %+v, error is %v", report, err)
				}
				if want := map[bool]int{true: 1, false: bridge.Tries}[name == "403"]; requests != want {
					t.Errorf("the attachment was requested %d times, want %d", requests, want)
				}
				r.client.HTTP = &http.Client{Transport: all}
				if report := r.run(); report.Published != 2 || report.Quarantined > 0 {
					t.Errorf("report is %+v", report)
				}
			})
		}
	}
}

// TestAttachmentWrongOnce: an attachment that is wrong is requested once more.
func TestAttachmentWrongOnce(t *testing.T) {
	r := newRigOf(t, kintotest.NewFake(t).NewCollection(t))
	all := &files{t, map[string]string{"one": "jello"}}
	r.configure = func(c *Config) { c.Attachments = Inline }
	r.attach("a", "one", "hello", 5)
	requests := 0
	r.client.HTTP = &http.Client{Transport: roundTrip(func(q *http.Request) (*http.Response, error) {
		if q.URL.Host == "cdn" {
			if requests++; requests == 2 {
				all.files["one"] = "hello"
			}
		}
		return all.RoundTrip(q)
	})}
	if report := r.run(); report.Published != 2 || report.Quarantined > 0 {
		t.Errorf("report is %+v", report)
	}
	r.attach("b", "one", "other", 5)
	if report := r.run(); report.Quarantined != 1 {
		t.Errorf("report is %+v", report)
	}
}
