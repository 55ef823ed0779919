package s3_test

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"

	"github.com/feedctl/feedctl/internal/s3fault"
	"github.com/feedctl/feedctl/internal/s3test"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/s3"
)

// before starts a proxy in front of the test server, with or without TLS, that injects faults, and
// returns the proxy's address.
func before(t *testing.T, server *s3test.Server, tls bool, decide func(s3fault.Request) s3fault.Fault) *url.URL {
	t.Helper()
	u := must[*url.URL](t)(url.Parse(server.URL("")))
	if u.Query().Get("endpoint") == "" {
		t.Skip("the server has no separate address")
	}
	proxy := httptest.NewUnstartedServer(s3fault.Proxy(must[*url.URL](t)(url.Parse(u.Query().Get("endpoint"))), decide))
	t.Cleanup(proxy.Close)
	proxy.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	if !tls {
		proxy.Start()
	} else {
		proxy.StartTLS()
		path := filepath.Join(t.TempDir(), "ca.pem")
		certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: proxy.Certificate().Raw})
		if err := os.WriteFile(path, certificate, 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv("AWS_CA_BUNDLE", path)
	}
	return must[*url.URL](t)(url.Parse(proxy.URL))
}

// writeAndRead creates, appends to and reads an object that is uploaded in parts and one that is
// not.
func writeAndRead(t *testing.T, s *s3.Store) {
	t.Helper()
	for key, body := range map[string]string{"short": "body", "parts": string(pattern(partSize + 17))} {
		version := must[storage.Version](t)(s.Create(t.Context(), key, storage.Meta{}, text(body)))
		must[storage.Version](t)(s.Append(t.Context(), key, version, storage.Meta{}, text("tail")))
		if read(t, s, key) != body+"tail" {
			t.Errorf("%s: read other bytes than were written", key)
		}
	}
}

// TestTLS: even over TLS, the signature includes a digest of the bytes to be stored. AWS_CA_BUNDLE
// names additional certificates. A redirect to a server without TLS is not followed.
func TestTLS(t *testing.T) {
	server := s3test.Start(t)
	var unsigned, bodies atomic.Int32
	plain := before(t, server, false, func(s3fault.Request) s3fault.Fault {
		t.Error("a request was sent without TLS")
		return nil
	})
	digest := regexp.MustCompile("^[0-9a-f]{64}$")
	endpoint := before(t, server, true, func(r s3fault.Request) s3fault.Fault {
		if strings.HasSuffix(r.Path, "/moved") {
			return s3fault.Redirect(http.StatusTemporaryRedirect, plain)
		}
		if r.Operation != s3fault.PutObject && r.Operation != s3fault.UploadPart || strings.Contains(r.Path, "/!feedctl/") {
			return nil
		}
		return func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
			if bodies.Add(1); !digest.MatchString(r.Header.Get("X-Amz-Content-Sha256")) {
				unsigned.Add(1)
			}
			return next.RoundTrip(r)
		}
	})
	s := newStore(t, server, "tls", smallParts, func(c *s3.Config) { c.Endpoint = endpoint.String() })
	writeAndRead(t, s)
	if bodies.Load() == 0 || unsigned.Load() > 0 {
		t.Errorf("%d of %d bodies had no digest", unsigned.Load(), bodies.Load())
	}
	if _, err := s.Stat(t.Context(), "moved"); err == nil || errors.Is(err, storage.ErrNotFound) {
		t.Errorf("Stat redirected to a server without TLS: %v", err)
	}
	t.Setenv("AWS_CA_BUNDLE", "")
	untrusted := newStore(t, server, "tls", func(c *s3.Config) { c.Endpoint, c.Attempts = endpoint.String(), 1 })
	if _, err := untrusted.Stat(t.Context(), "short"); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("an untrusted certificate: %v", err)
	}
}

// TestRedirected: the server redirects every request with status 307, and the request is sent
// again with its body.
func TestRedirected(t *testing.T) {
	server := s3test.Start(t)
	var moved atomic.Int32
	there := before(t, server, false, func(s3fault.Request) s3fault.Fault {
		moved.Add(1)
		return nil
	})
	here := before(t, server, false, func(s3fault.Request) s3fault.Fault {
		return s3fault.Redirect(http.StatusTemporaryRedirect, there)
	})
	s := newStore(t, server, "moved", smallParts, func(c *s3.Config) { c.Endpoint = here.String() })
	writeAndRead(t, s)
	sent := 0
	for _, n := range s.Requests() {
		sent += int(n)
	}
	if int(moved.Load())*2 != sent {
		t.Errorf("of %d requests, %d reached the other address, want half", sent, moved.Load())
	}
}

// TestRenewedCredentials: credentials that the server reports as expired are requested
// again from the container's endpoint, and the request is sent again with its body.
func TestRenewedCredentials(t *testing.T) {
	server := s3test.Start(t)
	good := must[aws.Credentials](t)(must[aws.Config](t)(awsconfig.LoadDefaultConfig(t.Context())).Credentials.Retrieve(t.Context()))
	var given atomic.Int32
	role := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		key := good.AccessKeyID
		if given.Add(1)%2 == 1 {
			key = "OLD"
		}
		_ = json.NewEncoder(w).Encode(map[string]string{
			"AccessKeyId": key, "SecretAccessKey": good.SecretAccessKey, "Token": good.SessionToken,
			"Expiration": time.Now().Add(time.Hour).UTC().Format(time.RFC3339),
		})
	}))
	defer role.Close()
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", role.URL)
	old := func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		if strings.Contains(r.Header.Get("Authorization"), "Credential=OLD/") {
			return s3fault.Answer(http.StatusBadRequest, "ExpiredToken")(next, r)
		}
		return next.RoundTrip(r)
	}
	for i := range 2 {
		s := newStore(t, server, fmt.Sprint("renewed-", i), smallParts, func(c *s3.Config) {
			c.Transport = func(next http.RoundTripper) http.RoundTripper {
				return s3fault.Wrap(next, func(s3fault.Request) s3fault.Fault { return old })
			}
		})
		writeAndRead(t, s)
	}
	if given.Load() != 4 {
		t.Errorf("credentials were requested %d times, want 4", given.Load())
	}
}

// TestCredentialsUnavailable: if the source of credentials is unavailable for a moment when they
// expire, the driver tries again.
func TestCredentialsUnavailable(t *testing.T) {
	server := s3test.Start(t)
	good := must[aws.Credentials](t)(must[aws.Config](t)(awsconfig.LoadDefaultConfig(t.Context())).Credentials.Retrieve(t.Context()))
	var asked atomic.Int32
	role := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if n := asked.Add(1); n == 2 || n == 3 {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]string{
			"AccessKeyId": good.AccessKeyID, "SecretAccessKey": good.SecretAccessKey, "Token": good.SessionToken,
			"Expiration": time.Now().Add(time.Hour).UTC().Format(time.RFC3339),
		})
	}))
	defer role.Close()
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", role.URL)
	expire := false
	s := newStore(t, server, "awaited", func(c *s3.Config) {
		c.Transport = func(next http.RoundTripper) http.RoundTripper {
			return s3fault.Wrap(next, func(s3fault.Request) s3fault.Fault {
				if !expire {
					return nil
				}
				expire = false
				return s3fault.Answer(http.StatusBadRequest, "ExpiredToken")
			})
		}
	})
	writeAndRead(t, s)
	expire = true
	if _, err := s.Stat(t.Context(), "gone"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("Stat while credentials are unavailable for a moment: %v", err)
	}
	if n := asked.Load(); n < 4 {
		t.Errorf("credentials were requested %d times", n)
	}
}
