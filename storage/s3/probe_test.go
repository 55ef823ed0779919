package s3_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/feedctl/feedctl/internal/s3fault"
	"github.com/feedctl/feedctl/internal/s3test"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/s3"
)

// objectNames lists all objects below a prefix, including the driver's own.
func objectNames(t *testing.T, server *s3test.Server, prefix string) (names []string) {
	t.Helper()
	client, bucket := rawClient(t, server)
	root := objectOf(server, prefix, "")
	out := must[*sdk.ListObjectsV2Output](t)(client.ListObjectsV2(t.Context(), &sdk.ListObjectsV2Input{Bucket: bucket, Prefix: root}))
	for _, o := range out.Contents {
		names = append(names, strings.TrimPrefix(*o.Key, *root))
	}
	return names
}

// TestProbe: a conforming server passes all checks, and the probe leaves only its record behind.
func TestProbe(t *testing.T) {
	server := s3test.Start(t)
	s := newStore(t, server, "probe")
	for _, c := range must[[]storage.Check](t)(s.Probe(t.Context())) {
		if !c.OK {
			t.Errorf("%s: %s", c.Name, c.Detail)
		}
	}
	if got := objectNames(t, server, "probe"); !slices.Equal(got, []string{"!feedctl/probe"}) {
		t.Errorf("objects afterwards: %q", got)
	}
	for entry, err := range s.List(t.Context(), "", "") {
		t.Errorf("listed %v, %v", entry, err)
	}
	sent := since(s, func() { must[storage.Version](t)(s.Create(t.Context(), "a", storage.Meta{}, text(""))) })
	if sent["PutObject"] != 1 || len(sent) != 1 {
		t.Errorf("a write after the probe sent %v", sent)
	}
	// Readers do not probe.
	reader := newStore(t, server, "unused")
	if _, err := reader.Stat(t.Context(), "a"); !errors.Is(err, storage.ErrNotFound) || len(objectNames(t, server, "unused")) > 0 {
		t.Errorf("a reader left %q behind, %v", objectNames(t, server, "unused"), err)
	}
}

// TestProbeConflict: any server may refuse to complete an upload because of another write in
// progress, so this must not make it fail the probe.
func TestProbeConflict(t *testing.T) {
	server := s3test.Start(t)
	conflict := s3fault.Answer(http.StatusConflict, "ConditionalRequestConflict")
	for name, fault := range map[string]s3fault.Fault{"before": conflict, "after": s3fault.Landed(conflict)} {
		completed := map[string]int{}
		s := newStore(t, server, "conflict/"+name, func(config *s3.Config) {
			config.Transport = func(next http.RoundTripper) http.RoundTripper {
				return s3fault.Wrap(next, func(r s3fault.Request) s3fault.Fault {
					if r.Operation != s3fault.CompleteMultipartUpload {
						return nil
					}
					if completed[r.Path]++; completed[r.Path]%3 == 0 { // there are two conditions
						return nil
					}
					return fault
				})
			}
		})
		checks, err := s.Probe(t.Context())
		if err != nil {
			t.Errorf("conflict %s: %v", name, err)
		}
		for _, c := range checks {
			if !c.OK {
				t.Errorf("conflict %s: %s: %s", name, c.Name, c.Detail)
			}
		}
		if len(completed) != 1 {
			t.Errorf("uploads completed: %v", completed)
		}
	}
}

// TestConcurrentProbes: several processes use a new prefix concurrently.
func TestConcurrentProbes(t *testing.T) {
	server := s3test.Start(t)
	var all sync.WaitGroup
	for i := range 4 {
		s := newStore(t, server, "new")
		for range 2 {
			all.Go(func() {
				if _, err := s.Create(t.Context(), string(rune('a'+i)), storage.Meta{}, text("")); err != nil && !errors.Is(err, storage.ErrExists) {
					t.Error(err)
				}
			})
		}
	}
	all.Wait()
	if got := objectNames(t, server, "new"); !slices.Equal(got, []string{"!feedctl/probe", "a", "b", "c", "d"}) {
		t.Errorf("objects afterwards: %q", got)
	}
}

// TestUnsafeServer writes to servers that ignore or reject conditions. They are simulated by a
// transport that removes headers from some requests, or responds to these itself.
func TestUnsafeServer(t *testing.T) {
	server := s3test.Start(t)
	strip := func(method, header string) s3fault.Fault {
		return func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
			if r.Method == method {
				r = r.Clone(r.Context())
				without(t, r, header)
			}
			return next.RoundTrip(r)
		}
	}
	tooLarge := func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		if len(r.Header.Get("X-Amz-Meta-Feedctl")) > 1000 {
			return s3fault.Answer(http.StatusBadRequest, "MetadataTooLarge")(next, r)
		}
		return next.RoundTrip(r)
	}
	refuse := func(method, header string) s3fault.Fault {
		return func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
			if r.Method == method && r.Header.Get(header) != "" {
				return s3fault.Answer(http.StatusNotImplemented, "NotImplemented")(next, r)
			}
			return next.RoundTrip(r)
		}
	}
	for name, c := range map[string]struct {
		ignore s3fault.Fault
		check  string
		detail string
	}{
		"no-If-None-Match": {refuse(http.MethodPut, "If-None-Match"), "conditional writes are supported", "NotImplemented"},
		"no-If-Match":      {refuse(http.MethodPut, "If-Match"), "conditional writes are supported", "NotImplemented"},
		"no-parts":         {refuse(http.MethodPost, "If-None-Match"), "If-None-Match: * applies to multipart uploads", "NotImplemented"},
		"If-None-Match":    {strip(http.MethodPut, "If-None-Match"), "If-None-Match: * protects an existing object", "succeeded"},
		"If-Match":         {strip(http.MethodPut, "If-Match"), "If-Match protects another version", "succeeded"},
		"parts":            {strip(http.MethodPost, "If-None-Match"), "If-None-Match: * applies to multipart uploads", "succeeded"},
		"metadata":         {strip(http.MethodPut, "X-Amz-Meta-Feedctl"), "metadata of nearly 2 KB", `were returned as ""`},
		"no-room":          {tooLarge, "metadata of nearly 2 KB", "rejected as MetadataTooLarge"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, server, "unfit/"+name, func(config *s3.Config) {
				config.Transport = func(next http.RoundTripper) http.RoundTripper {
					return s3fault.Wrap(next, func(s3fault.Request) s3fault.Fault { return c.ignore })
				}
			})
			for range 2 {
				_, err := s.Create(t.Context(), "a", storage.Meta{}, text(""))
				if !errors.Is(err, storage.ErrUnsafe) || !strings.Contains(err.Error(), c.check) || !strings.Contains(err.Error(), c.detail) {
					t.Errorf("Create: %v", err)
				}
			}
			checks := must[[]storage.Check](t)(s.Probe(t.Context()))
			if !slices.ContainsFunc(checks, func(k storage.Check) bool { return !k.OK && strings.Contains(k.Name, c.check) }) {
				t.Errorf("Probe: %+v", checks)
			}
			if got := objectNames(t, server, "unfit/"+name); len(got) > 0 {
				t.Errorf("objects afterwards: %q", got)
			}
		})
	}
}

// TestPolicies writes to buckets whose policy denies what a producer does not need.
func TestPolicies(t *testing.T) {
	server := s3test.Start(t)
	deny := s3fault.Answer(http.StatusForbidden, "AccessDenied")
	begins := func(r *http.Request) bool { // begins to write an object, in one request or in parts
		return r.Method == http.MethodPut && !r.URL.Query().Has("partNumber") || r.Method == http.MethodPost && r.URL.Query().Has("uploads")
	}
	for name, c := range map[string]struct {
		denied func(*http.Request) bool
		stays  bool // what the probe wrote
	}{
		"no-delete": {func(r *http.Request) bool {
			return r.Method == http.MethodDelete && !r.URL.Query().Has("uploadId")
		}, true},
		"conditional": {func(r *http.Request) bool {
			return r.Method == http.MethodPut && begins(r) && r.Header.Get("If-None-Match") == "" && r.Header.Get("If-Match") == ""
		}, false},
		"encrypted": {func(r *http.Request) bool {
			return begins(r) && r.Header.Get("X-Amz-Server-Side-Encryption") != "AES256"
		}, false},
		"owner": {func(r *http.Request) bool {
			return begins(r) && r.Header.Get("X-Amz-Acl") != "bucket-owner-full-control"
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			open := func() *s3.Store {
				return newStore(t, server, "policies/"+name, func(config *s3.Config) {
					config.SSE, config.ACL = "AES256", "bucket-owner-full-control"
					config.Transport = func(next http.RoundTripper) http.RoundTripper {
						return s3fault.Wrap(next, func(s3fault.Request) s3fault.Fault {
							return func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
								if c.denied(r) {
									return deny(next, r)
								}
								r = r.Clone(r.Context())
								without(t, r, "X-Amz-Server-Side-Encryption") // unknown to the server
								without(t, r, "X-Amz-Acl")
								return next.RoundTrip(r)
							}
						})
					}
				})
			}
			must[storage.Version](t)(open().Create(t.Context(), "a", storage.Meta{}, text("")))
			want := []string{"!feedctl/probe", "a"}
			got := objectNames(t, server, "policies/"+name)
			if c.stays {
				got = slices.DeleteFunc(got, func(key string) bool { return strings.HasPrefix(key, "!feedctl/try-") })
			}
			if !slices.Equal(got, want) {
				t.Errorf("objects afterwards: %q, want %q", got, want)
			}
			next := open()
			sent := since(next, func() { must[storage.Version](t)(next.Create(t.Context(), "b", storage.Meta{}, text(""))) })
			if sent["PutObject"] != 1 || sent["GetObject"] != 1 || len(sent) != 2 {
				t.Errorf("a write of another process sent %v", sent)
			}
		})
	}
}

// without removes a header from a request and signs the request again.
func without(t *testing.T, r *http.Request, name string) {
	t.Helper()
	if r.Header.Get(name) == "" {
		return
	}
	r.Header.Del(name)
	chain := must[aws.Config](t)(awsconfig.LoadDefaultConfig(r.Context()))
	credentials := must[aws.Credentials](t)(chain.Credentials.Retrieve(r.Context()))
	signature := strings.Split(r.Header.Get("Authorization"), "/") // Credential=KEY/DATE/REGION/s3/...
	err := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true }).
		SignHTTP(r.Context(), credentials, r, r.Header.Get("X-Amz-Content-Sha256"), "s3", signature[2], time.Now())
	if err != nil {
		t.Error(err)
	}
}
