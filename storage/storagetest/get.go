package storagetest

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"testing"
	"testing/iotest"

	"github.com/feedctl/feedctl/storage"
)

// testRanges compares ranges of a body with slices of it.
func testRanges(t *testing.T, s *suite) {
	data := []byte("0123456789")
	for _, n := range []int{0, 1, len(data)} {
		key := s.key(fmt.Sprint(n))
		version := s.create(t, key, claimOf("x", n, data[:n]), string(data[:n]))
		for _, offset := range []int64{0, 1, 5, 9, 10, 11, 1000, math.MaxInt64} {
			for _, length := range []int64{math.MinInt64, -1, 0, 1, 5, 9, 10, 11, math.MaxInt64} {
				want := data[:n]
				want = want[min(offset, int64(n)):]
				if length >= 0 {
					want = want[:min(length, int64(len(want)))]
				}
				name := fmt.Sprintf("%d bytes, offset %d, length %d", n, offset, length)
				for way, read := range map[string]func(io.Reader) error{
					"Read": func(r io.Reader) error { return iotest.TestReader(struct{ io.Reader }{r}, want) },
					"Copy": func(r io.Reader) error {
						var b bytes.Buffer
						n, err := io.Copy(&b, r)
						if err == nil && (n != int64(b.Len()) || !bytes.Equal(b.Bytes(), want)) {
							err = fmt.Errorf("got %q, count %d, want %q", b.Bytes(), n, want)
						}
						return err
					},
				} {
					o, err := s.store.Get(t.Context(), key, offset, length)
					if err != nil {
						t.Fatalf("%s: %v", name, err)
					}
					if o.Size != int64(n) || o.Version != version {
						t.Errorf("%s: got size %d of version %s, want those of the whole object", name, o.Size, o.Version)
					}
					if body, ok := storage.AsLoaded(o.Body); ok && (!bytes.Equal(body.Bytes(), want) || body.SHA256() != sha256.Sum256(want)) {
						t.Errorf("%s: has %q and SHA-256 %x, want those of %q", name, body.Bytes(), body.SHA256(), want)
					}
					if err := read(o.Body); err != nil {
						t.Errorf("%s: %s: %v", name, way, err)
					}
					if err := o.Body.Close(); err != nil {
						t.Errorf("%s: Close: %v", name, err)
					}
				}
			}
		}
	}
	for _, offset := range []int64{-1, math.MinInt64} {
		if o, err := s.store.Get(t.Context(), s.key("10"), offset, 1); err == nil {
			o.Body.Close()
			t.Errorf("Get from offset %d: no error", offset)
		}
	}
	if _, err := s.store.Get(t.Context(), s.key("none"), 5, 1); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("Get of a range of a missing object: %v", err)
	}
}

// testOpenBodies reads bodies after their objects have changed: reads must return the old
// bytes or fail.
func testOpenBodies(t *testing.T, s *suite) {
	ctx := t.Context()
	data := bytes.Repeat([]byte("first "), 100_000)
	for name, change := range map[string]func(key string, version storage.Version) error{
		"append": func(key string, version storage.Version) error {
			for range 3 {
				var err error
				if version, err = s.store.Append(ctx, key, version, storage.Meta{}, storage.Bytes(data)); err != nil {
					return err
				}
			}
			return nil
		},
		"replace": func(key string, version storage.Version) error {
			_, err := s.store.Replace(ctx, key, version, storage.Meta{}, storage.Bytes(bytes.ToUpper(data)))
			return err
		},
		"delete": func(key string, _ storage.Version) error { return s.store.Delete(ctx, key) },
		"create": func(key string, _ storage.Version) error {
			if err := s.store.Delete(ctx, key); err != nil {
				return err
			}
			_, err := s.store.Create(ctx, key, storage.Meta{}, storage.Bytes(bytes.ToUpper(data)))
			return err
		},
	} {
		key := s.key(name)
		version := s.create(t, key, claimOf(name, 1, data), string(data))
		o, err := s.store.Get(ctx, key, 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		head := make([]byte, 100)
		if _, err := io.ReadFull(o.Body, head); err != nil {
			t.Fatal(err)
		}
		if err := change(key, version); err != nil {
			t.Fatal(err)
		}
		rest, err := io.ReadAll(o.Body)
		if !bytes.HasPrefix(data, append(head, rest...)) || err == nil && len(head)+len(rest) != len(data) {
			t.Errorf("%s while a body was open: it continued with other bytes", name)
		}
		o.Body.Close()
	}
}
