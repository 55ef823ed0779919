package s3_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/feedctl/feedctl/internal/s3test"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/s3"
)

const partSize = 5 << 20

func smallParts(c *s3.Config) { c.PartSize = partSize }

// pattern returns a body of n bytes in which each block of 8 bytes is unique.
func pattern(n int) []byte {
	b := make([]byte, 0, n+8)
	for i := 0; len(b) < n; i += 8 {
		b = fmt.Appendf(b, "%08x", i)
	}
	return b[:n]
}

// A forwardBody is a body that can be read only from its beginning.
type forwardBody struct {
	storage.Body
	opened *atomic.Int32
}

func (b forwardBody) Open() (io.ReadCloser, error) {
	b.opened.Add(1)
	return b.Body.Open()
}

func uploads(t *testing.T, server *s3test.Server) []string {
	t.Helper()
	client, bucket := rawClient(t, server)
	out := must[*sdk.ListMultipartUploadsOutput](t)(client.ListMultipartUploads(t.Context(),
		&sdk.ListMultipartUploadsInput{Bucket: bucket, Prefix: objectOf(server, "parts", "")}))
	var keys []string
	for _, u := range out.Uploads {
		keys = append(keys, *u.Key)
	}
	return keys
}

// TestParts writes bodies of all kinds in parts.
func TestParts(t *testing.T) {
	server := s3test.Start(t)
	s := newStore(t, server, "parts", smallParts)
	data := pattern(3*partSize + 17)
	path := filepath.Join(t.TempDir(), "body")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	var opened atomic.Int32
	for name, body := range map[string]storage.Body{
		"memory":  storage.Bytes(data),
		"file":    storage.File(path, 0, int64(len(data))),
		"forward": forwardBody{storage.Bytes(data), &opened},
		"mixed":   storage.Concat(storage.Bytes(data[:100]), storage.File(path, 100, int64(len(data)-100))),
	} {
		var version storage.Version
		sent := since(s, func() { version = must[storage.Version](t)(s.Create(t.Context(), name, storage.Meta{}, body)) })
		if sent["UploadPart"] < 4 || sent["CompleteMultipartUpload"] < 1 {
			t.Errorf("%s: sent %v", name, sent)
		}
		if got := sumOf(t, s, name); got != sha256.Sum256(data) {
			t.Errorf("%s: read other bytes than were written", name)
		}
		_, err := s.Create(t.Context(), name, storage.Meta{}, body)
		if !errors.Is(err, storage.ErrExists) {
			t.Errorf("%s: Create again: %v", name, err)
		}
		version = must[storage.Version](t)(s.Append(t.Context(), name, version, storage.Meta{}, text("tail")))
		if _, err := s.Append(t.Context(), name, version+"x", storage.Meta{}, text("tail")); !errors.Is(err, storage.ErrConflict) {
			t.Errorf("%s: Append at an invalid version: %v", name, err)
		}
		if got := sumOf(t, s, name); got != sha256.Sum256(append(slices.Clip(data), "tail"...)) {
			t.Errorf("%s: read other bytes than were written after Append", name)
		}
		must[storage.Version](t)(s.Replace(t.Context(), name, version, storage.Meta{}, body))
		if _, err := s.Replace(t.Context(), name, version, storage.Meta{}, body); !errors.Is(err, storage.ErrConflict) {
			t.Errorf("%s: Replace at the previous version: %v", name, err)
		}
	}
	// Each of four uploads opens the body twice: for the digest, and for the parts.
	if n := opened.Load(); n != 8 {
		t.Errorf("a body that can only be read forward was opened %d times, want 8", n)
	}
	if got := uploads(t, server); len(got) > 0 {
		t.Errorf("uploads are left behind: %q", got)
	}
}

func sumOf(t *testing.T, s *s3.Store, key string) (sum [sha256.Size]byte) {
	t.Helper()
	o := must[*storage.Object](t)(s.Get(t.Context(), key, 0, -1))
	defer o.Body.Close()
	h := sha256.New()
	if _, err := io.Copy(h, o.Body); err != nil {
		t.Fatal(err)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// TestPartsFail: an upload that fails or is cancelled midway is aborted.
func TestPartsFail(t *testing.T) {
	server := s3test.Start(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := newStore(t, server, "parts", smallParts, func(c *s3.Config) {
		c.Transport = func(next http.RoundTripper) http.RoundTripper {
			return hook{RoundTripper: next, before: func(r *http.Request) {
				if r.URL.Query().Get("partNumber") == "2" && strings.HasSuffix(r.URL.Path, "/cancelled") {
					cancel()
				}
			}}
		}
	})
	data := pattern(2*partSize + 17)
	errBroken := errors.New("the disk is broken")
	reads := 0
	broken := openBody{int64(len(data)), func() (io.ReadCloser, error) {
		if reads++; reads == 1 { // for the digest
			return io.NopCloser(bytes.NewReader(data)), nil
		}
		return io.NopCloser(io.MultiReader(bytes.NewReader(data[:partSize+100]), errReader{errBroken})), nil
	}}
	if _, err := s.Create(t.Context(), "broken", storage.Meta{}, broken); !errors.Is(err, errBroken) {
		t.Errorf("body that fails in the second part: %v", err)
	}
	if _, err := s.Create(ctx, "cancelled", storage.Meta{}, storage.Bytes(data)); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled in the second part: %v", err)
	}
	for _, key := range []string{"broken", "cancelled"} {
		if _, err := s.Stat(t.Context(), key); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("%s: %v", key, err)
		}
	}
	if got := uploads(t, server); len(got) > 0 {
		t.Errorf("uploads are left behind: %q", got)
	}
}

type openBody struct {
	size int64
	open func() (io.ReadCloser, error)
}

func (b openBody) Size() int64                  { return b.size }
func (b openBody) Open() (io.ReadCloser, error) { return b.open() }

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

// TestSweepActiveUpload: a writer whose upload is aborted by a sweep starts over.
func TestSweepActiveUpload(t *testing.T) {
	server := s3test.Start(t)
	sweeper := newStore(t, server, "parts")
	var swept atomic.Bool
	s := newStore(t, server, "parts", smallParts, func(c *s3.Config) {
		c.Transport = func(next http.RoundTripper) http.RoundTripper {
			return hook{RoundTripper: next, before: func(r *http.Request) {
				if strings.HasSuffix(r.URL.Path, "/a") && r.URL.Query().Get("uploadId") != "" && r.Method == http.MethodPost && !swept.Swap(true) {
					if freed, err := sweeper.Sweep(t.Context(), -time.Minute); err != nil || freed < partSize {
						t.Errorf("Sweep: %d, %v", freed, err)
					}
				}
			}}
		}
	})
	data := pattern(partSize + 1)
	must[storage.Version](t)(s.Create(t.Context(), "a", storage.Meta{}, storage.Bytes(data)))
	if got := sumOf(t, s, "a"); got != sha256.Sum256(data) || !swept.Load() {
		t.Error("read other bytes than were written")
	}
}

// TestSweepProbes: Sweep removes objects that a killed probe has left behind, once they are too old
// to belong to a running probe.
func TestSweepProbes(t *testing.T) {
	server := s3test.Start(t)
	s := newStore(t, server, "parts")
	client, bucket := rawClient(t, server)
	put := func(name string) {
		must[*sdk.PutObjectOutput](t)(client.PutObject(t.Context(), &sdk.PutObjectInput{
			Bucket: bucket, Key: objectOf(server, "parts", name), Body: strings.NewReader("left"), Metadata: map[string]string{"a": "b"},
		}))
	}
	put("!feedctl/try-X")
	if freed, err := s.Sweep(t.Context(), -time.Minute); freed != 0 || err != nil {
		t.Errorf("Sweep of a probe that may be running: %d, %v", freed, err)
	}
	if server.Dir == "" {
		return // the times of the server's objects cannot be set
	}
	old := time.Now().Add(-3 * time.Hour)
	if err := os.Chtimes(filepath.Join(server.Dir, "parts", "!feedctl", "try-X"), old, old); err != nil {
		t.Fatal(err)
	}
	if freed, err := s.Sweep(t.Context(), 4*time.Hour); freed != 0 || err != nil {
		t.Errorf("Sweep of an old probe: %d, %v", freed, err)
	}
	if freed, err := s.Sweep(t.Context(), 0); freed != 4 || err != nil {
		t.Errorf("Sweep: %d, %v", freed, err)
	}
	_, err := client.HeadObject(t.Context(), &sdk.HeadObjectInput{Bucket: bucket, Key: objectOf(server, "parts", "!feedctl/try-X")})
	if err == nil {
		t.Error("the object still exists")
	}
}
