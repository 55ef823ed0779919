package s3_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/feedctl/feedctl/internal/s3test"
	"github.com/feedctl/feedctl/storage"
)

// TestMemoryReused: memory is reused for other objects only after the body in it has been closed,
// and is not shared with a body that is kept for an append.
func TestMemoryReused(t *testing.T) {
	s := newStore(t, s3test.Start(t), "memory")
	body := func(c byte) []byte { return bytes.Repeat([]byte{c}, 100_000) }
	open := func(key string) io.ReadCloser {
		t.Helper()
		o, err := s.Get(t.Context(), key, 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		return o.Body
	}
	var version storage.Version
	for _, key := range []string{"b", "c", "d", "a"} {
		version = must[storage.Version](t)(s.Create(t.Context(), key, storage.Meta{}, storage.Bytes(body(key[0]))))
	}
	b := open("a")
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if n, err := b.Read(make([]byte, 1)); n > 0 {
		t.Errorf("after Close: %d bytes, %v", n, err)
	}
	if err := b.Close(); err != nil { // a second time
		t.Error(err)
	}
	var open3 []io.ReadCloser
	for _, key := range []string{"b", "c", "d"} {
		open3 = append(open3, open(key))
	}
	for i, c := range []byte("bcd") {
		data, err := io.ReadAll(open3[i])
		if err != nil || !bytes.Equal(data, body(c)) {
			t.Errorf("%c: %d bytes beginning with %.10q, %v", c, len(data), data, err)
		}
		if err := open3[i].Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := s.Append(t.Context(), "a", version, storage.Meta{}, storage.Bytes([]byte("end"))); err != nil {
		t.Fatal(err)
	}
	if got := read(t, s, "a"); got != string(body('a'))+"end" {
		t.Errorf("after Append: %d bytes, beginning with %.10q", len(got), got)
	}
}
