package verify_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/verify"
)

// TestCredentialsOfOrigin: requests to another origin, after a link or a redirect, have
// neither credentials nor headers.
func TestCredentialsOfOrigin(t *testing.T) {
	for name, lead := range map[string]func(s *site, elsewhere string){
		"link": func(s *site, elsewhere string) {
			s.pages[path(1)].header["Link"] = []string{"<" + path(1) + ">; rel=self", "<" + elsewhere + ">; rel=prev", "<" + path(2) + ">; rel=next"}
		},
		"redirect": func(s *site, elsewhere string) { s.pages[path(0)] = &fakePage{redirect: elsewhere} },
	} {
		for kind, credentials := range map[string]verify.Credentials{
			"Basic": {Username: "u", Password: "p"}, "Bearer": {Bearer: "secret"},
		} {
			t.Run(name+" "+kind, func(t *testing.T) {
				asked := false
				other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					asked = true
					if r.Header.Get("Authorization") != "" || r.Header.Get("X-Key") != "" {
						t.Errorf("%s %s got our headers: %v", r.Method, r.URL, r.Header)
					}
					w.WriteHeader(http.StatusNotFound)
				}))
				defer other.Close()
				s, _ := newFeed(t)
				s.observer = func(r *http.Request) {
					user, password, _ := r.BasicAuth()
					basic := user == credentials.Username && password == credentials.Password
					if kind == "Bearer" {
						basic = r.Header.Get("Authorization") == "Bearer secret"
					}
					if !basic || r.Header.Get("X-Key") != "k" {
						t.Errorf("%s %s came without our headers: %v", r.Method, r.URL, r.Header)
					}
				}
				lead(s, other.URL+"/pages/1")
				report := s.check(verify.Config{Credentials: credentials, Header: http.Header{"X-Key": {"k"}}})
				if asked || !slices.ContainsFunc(report.Violations, func(v verify.Violation) bool { return strings.Contains(v.Message, verify.ErrOrigin.Error()) }) {
					t.Errorf("requests to the other origin without permission: %v; %v", asked, report.Err())
				}
				report = s.check(verify.Config{Credentials: credentials, Header: http.Header{"X-Key": {"k"}}, AllowOrigins: []string{other.URL}})
				if !asked || !slices.ContainsFunc(report.Violations, func(v verify.Violation) bool { return v.Rule == verify.Reachable }) {
					t.Errorf("requests to the other origin: %v; %v", asked, report.Err())
				}
			})
		}
	}
}

func TestFeedErrors(t *testing.T) {
	for _, url := range []string{"", "feeds/zones", "ftp://example.com/", "http://", "http://u:secret@example.com/", "http://[::1"} {
		if report, err := verify.Feed(t.Context(), url, verify.Config{}); err == nil {
			t.Errorf("Feed(%q) = %+v", url, report)
		}
	}
	if report, err := verify.Feed(t.Context(), "http://example.com/", verify.Config{AllowOrigins: []string{"example.org"}}); err == nil {
		t.Errorf("a host without a scheme was accepted as an origin: %+v", report)
	}
	s, _ := newFeed(t)
	s.pages["/feeds/zones"].status = http.StatusUnauthorized
	_, err := verify.Feed(t.Context(), s.url("/feeds/zones"), verify.Config{})
	var status *verify.StatusError
	if !errors.As(err, &status) || status.StatusCode != http.StatusUnauthorized {
		t.Errorf("error %v, want a StatusError of 401", err)
	}
}

// TestCancelled: if the context is cancelled, that is an error and not a violation.
func TestCancelled(t *testing.T) {
	for _, request := range []string{"HEAD " + path(2), "HEAD " + path(0), "GET " + path(0), "GET " + path(2)} {
		s, _ := newFeed(t)
		ctx, cancel := context.WithCancel(t.Context())
		s.observer = func(r *http.Request) {
			if r.Method+" "+r.URL.Path == request {
				cancel()
				<-r.Context().Done() // wait, so that the response is not sent before the cancellation
			}
		}
		if report, err := verify.Feed(ctx, s.url("/feeds/zones"), verify.Config{}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: report %+v, error %v", request, report, err)
		}
		cancel()
	}
}

func TestTemporaryFiles(t *testing.T) {
	dir := t.TempDir()
	s, _ := newFeed(t)
	if _, err := verify.Feed(t.Context(), s.url("/feeds/zones"), verify.Config{TempDir: dir}); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
