package couchdb_test

import (
	"bytes"
	"compress/gzip"
	"crypto/md5"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/internal/couchtest"
)

// compressedBody returns a document as Apache CouchDB sends it, with compressed text.
func compressedBody(t *testing.T, id, text string, history bool) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	revisions := ""
	if history {
		revisions = `"_revisions":{"start":1,"ids":["aa"]},`
	}
	return "--b\r\nContent-Type: application/json\r\n\r\n" +
		fmt.Sprintf(`{"_id":%q,"_rev":"1-aa","n":12345678901234567890,%s"_attachments":{"a.txt":{"content_type":"text/plain","revpos":1,"digest":%q,"length":%d,"follows":true,"encoding":"gzip","encoded_length":%d},"b.png":{"content_type":"image/png","revpos":1,"digest":%q,"length":3,"follows":true}}}`, id, revisions, digest(b.String()), len(text), b.Len(), digest("PNG")) +
		"\r\n--b\r\nContent-Disposition: attachment; filename=\"a.txt\"\r\nContent-Type: text/plain\r\nContent-Length: " + fmt.Sprint(b.Len()) + "\r\nContent-Encoding: gzip\r\n\r\n" + b.String() +
		"\r\n--b\r\nContent-Disposition: attachment; filename=\"b.png\"\r\nContent-Type: image/png\r\nContent-Length: 3\r\n\r\nPNG\r\n--b--"
}

// digest returns CouchDB's digest of an attachment that it stores compressed.
func digest(stored string) string {
	sum := md5.Sum([]byte(stored))
	return "md5-" + base64.StdEncoding.EncodeToString(sum[:])
}

// TestCompressedBehindProxy: behind a proxy that exposes databases but not the server, attachments are
// sent unchanged.
func TestCompressedBehindProxy(t *testing.T) {
	var sent []byte
	k := open(t, couchtest.NewDB(t), func(r *http.Request) (*http.Response, error) {
		if r.URL.Path == "/" {
			return &http.Response{StatusCode: http.StatusForbidden, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
		}
		if strings.HasSuffix(r.URL.Path, "/doc") {
			var err error
			if sent, err = io.ReadAll(r.Body); err != nil {
				return nil, err
			}
			r = r.Clone(r.Context())
			r.Body = io.NopCloser(bytes.NewReader(sent))
		}
		return http.DefaultTransport.RoundTrip(r)
	})
	body := compressedBody(t, "doc", strings.Repeat("hello ", 1000), true)
	mustWrite(t, k, fromCouch(1, "multipart/related; boundary=b", body, "doc", "1-aa", false))
	if string(sent) != body {
		t.Errorf("sent %q, want %q", sent, body)
	}
}

// TestCompressed: text that CouchDB has compressed is sent to PouchDB Server as text, and to CouchDB
// unchanged.
func TestCompressed(t *testing.T) {
	text := strings.Repeat("hello ", 1000)
	for _, history := range []bool{true, false} {
		for _, vendor := range []string{"PouchDB authors", "The Apache Software Foundation"} {
			t.Run(fmt.Sprint(vendor, ", history ", history), func(t *testing.T) {
				to := couchtest.NewDB(t)
				var sent []byte
				k := open(t, to, func(r *http.Request) (*http.Response, error) {
					if r.URL.Path == "/" {
						answer := fmt.Sprintf(`{"couchdb":"Welcome","vendor":{"name":%q}}`, vendor)
						return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(answer)), Request: r}, nil
					}
					if strings.HasSuffix(r.URL.Path, "/doc") {
						var err error
						if sent, err = io.ReadAll(r.Body); err != nil {
							return nil, err
						}
						r = r.Clone(r.Context())
						r.Body = io.NopCloser(bytes.NewReader(sent))
					}
					return http.DefaultTransport.RoundTrip(r)
				})
				body := compressedBody(t, "doc", text, history)
				mustWrite(t, k, fromCouch(1, "multipart/related; boundary=b", body, "doc", "1-aa", false))
				got := couchtest.Send(t, http.MethodGet, to+"/doc/a.txt", "")
				// PouchDB's engine stores an attachment with a text type as the bytes that it receives.
				if whole := strings.HasPrefix(vendor, "PouchDB") || !couchtest.IsPouchDB(t); (got == text) != whole {
					t.Errorf("the attachment is %.20q", got)
				}
				if vendor != "PouchDB authors" && history && string(sent) != body {
					t.Errorf("sent %q, want %q", sent, body)
				}
				if got := couchtest.Send(t, http.MethodGet, to+"/doc/b.png", ""); got != "PNG" {
					t.Errorf("the other attachment is %q", got)
				}
			})
		}
	}
}
