package s3_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/s3"
)

// TestErrorResponses checks the errors of operations on a server that sends the same response to
// every request. A write fails when it reads the record of the probe, or later.
func TestErrorResponses(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	errNone := errors.New("matches none of package storage")
	for code, c := range map[string]struct {
		status int
		want   error
		advice string
	}{
		"AccessDenied":                 {403, storage.ErrPermission, "s3:PutObject"},
		"SignatureDoesNotMatch":        {403, storage.ErrPermission, "correct the credentials"},
		"InvalidAccessKeyId":           {403, storage.ErrPermission, "AWS_ACCESS_KEY_ID"},
		"ExpiredToken":                 {400, storage.ErrPermission, "new credentials"},
		"RequestTimeTooSkewed":         {403, storage.ErrPermission, "clock"},
		"SomethingElse":                {403, storage.ErrPermission, "policy"},
		"QuotaExceeded":                {403, storage.ErrFull, "quota"},
		"XMinioStorageFull":            {507, storage.ErrFull, "room"},
		"InsufficientStorage":          {507, storage.ErrFull, "room"},
		"NoSuchBucket":                 {404, storage.ErrNoStore, "bucket does not exist"},
		"PermanentRedirect":            {301, storage.ErrPermission, "region=eu-north-1"},
		"AuthorizationHeaderMalformed": {400, storage.ErrPermission, "region=eu-north-1"},
		"PageNotFound":                 {404, errNone, "endpoint="},
		"InvalidBucketName":            {400, storage.ErrPermission, "correct the URL"},
		"InvalidArgument":              {400, storage.ErrPermission, "options in the URL"},
		"KMS.NotFoundException":        {400, storage.ErrPermission, "kms_key_id="},
		"MethodNotAllowed":             {405, storage.ErrPermission, "options in the URL"},
		"NotImplemented":               {501, storage.ErrPermission, "options in the URL"},
	} {
		t.Run(code, func(t *testing.T) {
			requests := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, "/!feedctl/probe") {
					fmt.Fprint(w, "feedctl probe 1: the server honours conditional writes\n")
					return
				}
				requests++
				w.Header().Set("X-Amz-Bucket-Region", "eu-north-1")
				w.WriteHeader(c.status)
				fmt.Fprintf(w, "<Error><Code>%s</Code><Message>text</Message></Error>", code)
			}))
			defer server.Close()
			s, err := s3.Connect(t.Context(), s3.Config{
				Bucket: "bucket", Endpoint: server.URL, PathStyle: true, Attempts: 3, Backoff: time.Microsecond,
			})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			check := func(what string, err error) {
				t.Helper()
				if err == nil || c.want != errNone && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.advice) {
					t.Errorf("%s: %v", what, err)
				}
				for _, sentinel := range []error{
					storage.ErrNotFound, storage.ErrExists, storage.ErrConflict, storage.ErrFull, storage.ErrPermission, s3.ErrCorrupt,
				} {
					if sentinel != c.want && errors.Is(err, sentinel) {
						t.Errorf("%s: %v also matches %v", what, err, sentinel)
					}
				}
			}
			_, err = s.Create(t.Context(), "a", storage.Meta{}, text("x"))
			check("Create", err)
			if requests > 3 {
				t.Errorf("Create sent %d requests", requests)
			}
			_, err = s.Get(t.Context(), "a", 0, -1)
			check("Get", err)
			_, err = s.Stat(t.Context(), "a")
			check("Stat", err)
			check("Delete", s.Delete(t.Context(), "a"))
			for _, err := range s.List(t.Context(), "", "") {
				check("List", err)
			}
		})
	}
}

// TestKMSErrors: transient errors of KMS are retried and, if they persist, not reported as missing
// permissions.
func TestKMSErrors(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	for code, status := range map[string]int{"KMS.ThrottlingException": 400, "KMS.KMSInternalException": 500} {
		for _, passes := range []bool{true, false} {
			requests := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if requests++; passes && requests == 2 {
					fmt.Fprint(w, "<ListBucketResult></ListBucketResult>")
					return
				}
				w.WriteHeader(status)
				fmt.Fprintf(w, "<Error><Code>%s</Code><Message>text</Message></Error>", code)
			}))
			defer server.Close()
			s, err := s3.Connect(t.Context(), s3.Config{
				Bucket: "bucket", Endpoint: server.URL, PathStyle: true, Attempts: 3, Backoff: time.Microsecond,
			})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			for _, e := range s.List(t.Context(), "", "") {
				err = e
			}
			if passes != (err == nil) || requests != map[bool]int{true: 2, false: 3}[passes] || errors.Is(err, storage.ErrPermission) {
				t.Errorf("%s (passes: %v): %d requests, %v", code, passes, requests, err)
			}
		}
	}
}

// TestNoS3: if the URL is that of another kind of server, the error is returned at once; but if an
// S3 server has responded before, requests to a failing proxy are retried. Neither error is
// ErrNotFound.
func TestNoS3(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	for name, body := range map[string]string{
		"HTML":    "<html><head><meta></head></html>",
		"XHTML":   "<html><body><h1>Not Found</h1></body></html>",
		"text":    "default backend - 404",
		"JSON":    `{"error":"not_found","reason":"missing"}`,
		"nothing": "",
	} {
		for _, before := range []int{0, 1} {
			t.Run(fmt.Sprintf("%s after %d", name, before), func(t *testing.T) {
				answers := 0
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.WriteHeader(http.StatusNotFound)
					text := body
					if answers++; answers <= before {
						text = "<Error><Code>NoSuchKey</Code></Error>"
					}
					_, _ = io.WriteString(w, text)
				}))
				defer server.Close()
				s, err := s3.Connect(t.Context(), s3.Config{
					Bucket: "bucket", Endpoint: server.URL, PathStyle: true, Attempts: 3, Backoff: time.Microsecond,
				})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				if before > 0 {
					if _, err := s.Stat(t.Context(), "a"); !errors.Is(err, storage.ErrNotFound) {
						t.Fatal(err)
					}
				}
				check := func(what string, err error) {
					t.Helper()
					if err == nil || errors.Is(err, storage.ErrNotFound) || errors.Is(err, storage.ErrPermission) != (before == 0) ||
						!strings.Contains(err.Error(), "correct endpoint=") {
						t.Errorf("%s: %v", what, err)
					}
				}
				_, err = s.Stat(t.Context(), "a")
				check("Stat", err)
				_, err = s.Create(t.Context(), "a", storage.Meta{}, text("x"))
				check("Create", err)
				check("Delete", s.Delete(t.Context(), "a"))
			})
		}
	}
}

// TestNoResponse: the driver gives up on a server that does not respond.
func TestNoResponse(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer server.Close()
	s, err := s3.Connect(t.Context(), s3.Config{
		Bucket: "bucket", Endpoint: server.URL, PathStyle: true, Attempts: 2, Backoff: time.Microsecond, Stall: 20 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Stat(t.Context(), "a"); err == nil || !strings.Contains(err.Error(), "timeout") {
		t.Errorf("Stat: %v", err)
	}
	if got := s.Requests()["GetObject"]; got != 2 {
		t.Errorf("sent %d requests, want 2", got)
	}
}
