package s3_test

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/feedctl/feedctl/internal/s3fault"
	"github.com/feedctl/feedctl/internal/s3test"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/s3"
)

// TestNotReadWhileReplaced appends to objects that are too large for memory, on a server that locks
// an object during a PutObject, so reading it would block for ever.
func TestNotReadWhileReplaced(t *testing.T) {
	server := s3test.Start(t)
	var replacing atomic.Int32
	locks := func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		switch put := r.Method == http.MethodPut && !r.URL.Query().Has("partNumber"); {
		case !strings.HasSuffix(r.URL.Path, "/a"):
		case put:
			replacing.Add(1)
			defer replacing.Add(-1)
		case r.Method == http.MethodGet && replacing.Load() > 0:
			return nil, errors.New("the object is read while it is replaced")
		}
		return next.RoundTrip(r)
	}
	s := newStore(t, server, "locks", func(c *s3.Config) {
		c.Memory, c.Attempts = 1<<20, 1
		c.Transport = func(next http.RoundTripper) http.RoundTripper {
			return s3fault.Wrap(next, func(s3fault.Request) s3fault.Fault { return locks })
		}
	})
	body := string(pattern(200_000))
	version := must[storage.Version](t)(s.Create(t.Context(), "a", storage.Meta{}, text(body)))
	for range 3 {
		version = must[storage.Version](t)(s.Append(t.Context(), "a", version, storage.Meta{}, text("tail")))
		body += "tail"
	}
	if got := read(t, s, "a"); got != body {
		t.Errorf("read %d bytes that are not the %d written", len(got), len(body))
	}
}

// TestRejectedWhileSending: versitygw rejects a condition and closes the connection before
// it has read a long body, so its response may be lost. The outcome is known nonetheless, since a
// body that was not sent completely was not written.
func TestRejectedWhileSending(t *testing.T) {
	s := newStore(t, s3test.Start(t), "refused")
	body := storage.Bytes(pattern(12 << 20))
	old := must[storage.Version](t)(s.Create(t.Context(), "a", storage.Meta{}, body))
	must[storage.Version](t)(s.Replace(t.Context(), "a", old, storage.Meta{}, text("short")))
	for range 10 {
		if _, err := s.Create(t.Context(), "a", storage.Meta{}, body); !errors.Is(err, storage.ErrExists) {
			t.Errorf("Create: %v", err)
		}
		if _, err := s.Replace(t.Context(), "a", old, storage.Meta{}, body); !errors.Is(err, storage.ErrConflict) {
			t.Errorf("Replace: %v", err)
		}
	}
	if got := read(t, s, "a"); got != "short" {
		t.Errorf("the object has %d bytes", len(got))
	}
}
