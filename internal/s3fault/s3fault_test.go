package s3fault_test

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/internal/s3fault"
)

// A server stores what was put and counts the requests that it received completely.
type server struct {
	*httptest.Server
	mu     sync.Mutex
	got    []string // "METHOD path body"
	header http.Header
	answer string
}

func newServer(t *testing.T, answer string) *server {
	t.Helper()
	s := &server{answer: answer}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the request was incomplete
		}
		s.mu.Lock()
		s.got = append(s.got, strings.TrimSpace(r.Method+" "+r.URL.Path+" "+string(body)))
		s.header = r.Header.Clone()
		s.header.Set("Host", r.Host)
		s.mu.Unlock()
		w.Header().Set("X-Amz-Meta-Data", "meta")
		w.Header().Set("X-Amz-Checksum-Crc32", "sum")
		fmt.Fprint(w, s.answer)
	}))
	t.Cleanup(s.Close)
	return s
}

// client returns a client; the fault is applied to all of its requests.
func (s *server) client(fault s3fault.Fault) *http.Client {
	return &http.Client{
		Transport:     s3fault.Wrap(s.Client().Transport, func(s3fault.Request) s3fault.Fault { return fault }),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// An outcome is what the client and the server observed of one PUT of "request".
type outcome struct {
	Status int
	Code   string // of an S3 error
	Body   string
	Meta   string
	Length int64
	Err    string // of the request or of reading the response
	Server []string
}

func (s *server) put(t *testing.T, client *http.Client) outcome {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, s.URL+"/bucket/key", strings.NewReader("request"))
	if err != nil {
		t.Fatal(err)
	}
	var o outcome
	response, err := client.Do(r)
	if err == nil {
		defer response.Body.Close()
		var body []byte
		body, err = io.ReadAll(response.Body)
		o.Status, o.Body, o.Length = response.StatusCode, string(body), response.ContentLength
		o.Meta = response.Header.Get("X-Amz-Meta-Data")
		var e struct {
			XMLName xml.Name `xml:"Error"`
			Code    string
		}
		if xml.Unmarshal(body, &e) == nil {
			o.Code, o.Body, o.Length = e.Code, "", 0
		}
	}
	if err != nil {
		o.Err = errorKind(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o.Server = slices.Clone(s.got)
	return o
}

func errorKind(err error) string {
	var timeout net.Error
	switch {
	case strings.Contains(err.Error(), "connection reset by peer"):
		return "reset"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "cut"
	}
	return err.Error()
}

func TestFaults(t *testing.T) {
	arrived := []string{"PUT /bucket/key request"}
	whole := outcome{Status: 200, Body: "answer", Meta: "meta", Length: 6, Server: arrived}
	elsewhere := &url.URL{Scheme: "http", Host: "elsewhere:1"}
	for _, test := range []struct {
		name  string
		fault s3fault.Fault
		want  outcome
	}{
		{"none", nil, whole},
		{"refused", s3fault.Answer(503, "SlowDown"), outcome{Status: 503, Code: "SlowDown"}},
		{"proxy", s3fault.AnswerOfProxy(404), outcome{Status: 404, Body: "Not Found\n", Length: 10}},
		{"landed", s3fault.Landed(s3fault.Answer(500, "InternalError")), outcome{Status: 500, Code: "InternalError", Server: arrived}},
		{"timeout", s3fault.Fail(s3fault.ErrTimeout()), outcome{Err: "timeout"}},
		{"landed, reset", s3fault.Landed(s3fault.Fail(s3fault.ErrReset())), outcome{Err: "reset", Server: arrived}},
		{"twice", s3fault.Twice(), outcome{Status: 200, Body: "answer", Meta: "meta", Length: 6, Server: append(arrived, arrived...)}},
		{"moved for now", s3fault.Redirect(307, elsewhere), outcome{Status: 307, Code: "TemporaryRedirect"}},
		{"moved for good", s3fault.Redirect(301, elsewhere), outcome{Status: 301, Code: "PermanentRedirect"}},
		{"reset in the request", s3fault.ResetRequest(3), outcome{Err: "reset"}},
		{"reset after the request", s3fault.ResetRequest(7), whole},
		{"reset in the response", s3fault.ResetResponse(2), outcome{Status: 200, Body: "an", Meta: "meta", Length: 6, Err: "reset", Server: arrived}},
		{"reset after the response", s3fault.ResetResponse(6), whole},
		{"truncated", s3fault.Truncate(0), outcome{Status: 200, Meta: "meta", Length: 6, Err: "cut", Server: arrived}},
		{"shortened", s3fault.Shorten(2), outcome{Status: 200, Body: "an", Meta: "meta", Length: 2, Server: arrived}},
		{"flipped first byte", s3fault.FlipBody(0), outcome{Status: 200, Body: "qnswer", Meta: "meta", Length: 6, Server: arrived}},
		{"flipped last byte", s3fault.FlipBody(-1), outcome{Status: 200, Body: "answeb", Meta: "meta", Length: 6, Server: arrived}},
		{"flipped metadata", s3fault.FlipHeader("X-Amz-Meta-", -1), outcome{Status: 200, Body: "answer", Meta: "met`", Length: 6, Server: arrived}},
		{"headers of another object", s3fault.Headers(http.Header{"X-Amz-Meta-Data": {"other"}}), outcome{Status: 200, Body: "answer", Meta: "other", Length: 6, Server: arrived}},
		{"two faults combined", s3fault.Through(s3fault.Shorten(1), s3fault.Twice()),
			outcome{Status: 200, Body: "a", Meta: "meta", Length: 1, Server: append(arrived, arrived...)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newServer(t, "answer")
			if diff := cmp.Diff(test.want, s.put(t, s.client(test.fault))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestRedirectNamesTheOtherHost(t *testing.T) {
	s := newServer(t, "")
	response, err := s.client(s3fault.Redirect(307, &url.URL{Scheme: "http", Host: "elsewhere:1"})).Get(s.URL + "/bucket/key?x=1")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if got := response.Header.Get("Location"); got != "http://elsewhere:1/bucket/key?x=1" {
		t.Errorf("Location is %s", got)
	}
}

func TestRequests(t *testing.T) {
	s := newServer(t, "")
	var got []s3fault.Request
	client := &http.Client{Transport: s3fault.Wrap(s.Client().Transport, func(r s3fault.Request) s3fault.Fault {
		got = append(got, r)
		return nil
	})}
	var want []s3fault.Request
	for i, test := range []struct {
		method, path string
		header       http.Header
		want         s3fault.Operation
		attempt      int
	}{
		{"PUT", "/b/k?x-id=PutObject", nil, s3fault.PutObject, 1},
		{"PUT", "/b/k", nil, s3fault.PutObject, 2},
		{"PUT", "/b/k", http.Header{"X-Amz-Copy-Source": {"b/j"}}, s3fault.CopyObject, 1},
		{"PUT", "/b/k?partNumber=1&uploadId=u", nil, s3fault.UploadPart, 1},
		{"PUT", "/b/k?partNumber=1&uploadId=u", http.Header{"X-Amz-Copy-Source": {"b/j"}}, s3fault.UploadPartCopy, 1},
		{"POST", "/b/k?uploads", nil, s3fault.CreateMultipartUpload, 1},
		{"POST", "/b/k?uploadId=u", nil, s3fault.CompleteMultipartUpload, 1},
		{"POST", "/b/?delete", nil, s3fault.DeleteObjects, 1},
		{"POST", "/b/k?restore", nil, s3fault.Other, 1},
		{"DELETE", "/b/k?uploadId=u", nil, s3fault.AbortMultipartUpload, 1},
		{"DELETE", "/b/k", nil, s3fault.DeleteObject, 1},
		{"HEAD", "/b/k", nil, s3fault.HeadObject, 1},
		{"GET", "/b/k", nil, s3fault.GetObject, 1},
		{"GET", "/b/k?uploadId=u", nil, s3fault.ListParts, 1},
		{"GET", "/b/?list-type=2&prefix=k", nil, s3fault.ListObjectsV2, 1},
		{"GET", "/b/?uploads", nil, s3fault.ListMultipartUploads, 1},
		{"GET", "/b/k", nil, s3fault.GetObject, 2},
		{"GET", "/b/j", nil, s3fault.GetObject, 1},
		{"GET", "/", nil, s3fault.Other, 1},
	} {
		r, err := http.NewRequestWithContext(t.Context(), test.method, s.URL+test.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header = test.header
		response, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		want = append(want, s3fault.Request{Operation: test.want, Path: r.URL.Path, Prefix: r.URL.Query().Get("prefix"), N: i + 1, Attempt: test.attempt})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestEditList(t *testing.T) {
	const list = `<ListBucketResult><Name>b</Name><Contents><Key>1</Key></Contents><Contents><Key>2</Key></Contents><Size/></ListBucketResult>`
	for _, test := range []struct {
		name string
		edit func([]string) []string
		want string
	}{
		{"same", func(c []string) []string { return c }, list},
		{"stale", func(c []string) []string { return c[:1] },
			`<ListBucketResult><Name>b</Name><Contents><Key>1</Key></Contents><Size/></ListBucketResult>`},
		{"none", func([]string) []string { return nil }, `<ListBucketResult><Name>b</Name><Size/></ListBucketResult>`},
		{"out of order", func(c []string) []string { slices.Reverse(c); return c },
			`<ListBucketResult><Name>b</Name><Contents><Key>2</Key></Contents><Contents><Key>1</Key></Contents><Size/></ListBucketResult>`},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newServer(t, list)
			if got := s.put(t, s.client(s3fault.EditList(test.edit))).Body; got != test.want {
				t.Errorf("got %s", got)
			}
		})
	}
	s := newServer(t, "<ListBucketResult/>")
	if got := s.put(t, s.client(s3fault.EditList(func([]string) []string { panic("no objects") }))).Body; got != s.answer {
		t.Errorf("empty list: %s", got)
	}
}

func TestLate(t *testing.T) {
	s := newServer(t, "")
	var late s3fault.Late
	if got := s.put(t, s.client(late.Hold())); got.Err != "timeout" || len(got.Server) > 0 {
		t.Errorf("before: %+v", got)
	}
	for _, want := range []int{200, 0} {
		if status, err := late.Release(context.Background()); status != want || err != nil {
			t.Errorf("status %d, want %d; %v", status, want, err)
		}
	}
	if diff := cmp.Diff([]string{"PUT /bucket/key request"}, s.got); diff != "" {
		t.Errorf("after (-want +got):\n%s", diff)
	}
}

func TestLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := roundTripper(func(r *http.Request) (*http.Response, error) { return &http.Response{Request: r}, nil })
		far := s3fault.Latency(next, time.Second)
		begin := time.Now()
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://server/", nil)
		if _, err := far.RoundTrip(r); err != nil || time.Since(begin) != time.Second {
			t.Errorf("response after %v, %v", time.Since(begin), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		begin = time.Now()
		body := &closer{Reader: bytes.NewReader(nil)}
		r, _ = http.NewRequestWithContext(ctx, http.MethodPut, "http://server/", body)
		if _, err := far.RoundTrip(r); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != time.Millisecond || !body.closed {
			t.Errorf("cancelled: response after %v, %v, body closed %t", time.Since(begin), err, body.closed)
		}
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

type closer struct {
	io.Reader
	closed bool
}

func (c *closer) Close() error { c.closed = true; return nil }

// TestProxy injects faults between a client and a server that are not aware of them.
func TestProxy(t *testing.T) {
	arrived := []string{"PUT /bucket/key request"}
	for _, test := range []struct {
		name  string
		fault s3fault.Fault
		want  outcome
	}{
		{"none", nil, outcome{Status: 200, Body: "answer", Meta: "meta", Length: 6, Server: arrived}},
		{"refused", s3fault.Answer(409, "ConditionalRequestConflict"), outcome{Status: 409, Code: "ConditionalRequestConflict"}},
		{"reset", s3fault.Landed(s3fault.Fail(s3fault.ErrReset())), outcome{Err: "EOF", Server: arrived}},
		{"shortened", s3fault.Shorten(2), outcome{Status: 200, Body: "an", Meta: "meta", Length: 2, Server: arrived}},
		{"cut", s3fault.Truncate(2), outcome{Status: 200, Body: "an", Meta: "meta", Length: 6, Err: "cut", Server: arrived}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newServer(t, "answer")
			target, err := url.Parse(s.URL)
			if err != nil {
				t.Fatal(err)
			}
			proxy := httptest.NewServer(s3fault.Proxy(target, func(s3fault.Request) s3fault.Fault { return test.fault }))
			defer proxy.Close()
			address := strings.TrimPrefix(proxy.URL, "http://")
			client := &http.Client{Transport: &http.Transport{
				DisableKeepAlives: true, // so that no request is sent again when a connection breaks
				DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
					return new(net.Dialer).DialContext(ctx, network, address)
				},
			}}
			got := s.put(t, client)
			if test.want.Err == "EOF" && strings.HasSuffix(got.Err, "EOF") {
				got.Err = "EOF"
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if host := s.header.Get("Host"); len(got.Server) > 0 && host != target.Host {
				t.Errorf("the server got Host %s, want %s as sent by the client", host, target.Host)
			}
			if added := s.header.Get("X-Forwarded-For"); added != "" {
				t.Errorf("X-Forwarded-For: %s was added", added)
			}
		})
	}
}
