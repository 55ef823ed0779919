package storage_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/memory"
)

// FuzzCheckKey compares CheckKey and CheckPrefix with their definitions.
func FuzzCheckKey(f *testing.F) {
	for _, key := range []string{"", "a", "a/b", "/", "a//b", ".", "..", "a/..", "...", "a@", strings.Repeat("x", 201), strings.Repeat("a/", 256)} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		want := len(key) <= storage.MaxKey
		for segment := range strings.SplitSeq(key, "/") {
			const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"
			want = want && segment != "" && segment != "." && segment != ".." &&
				len(segment) <= storage.MaxSegment && strings.Trim(segment, alphabet) == ""
		}
		err := storage.CheckKey(key)
		if (err == nil) != want || err != nil && !errors.Is(err, storage.ErrKey) {
			t.Errorf("CheckKey(%q) = %v, want valid: %t", key, err, want)
		}
		if err != nil {
			return
		}
		for i := range key {
			if err := storage.CheckPrefix(key[:i]); err != nil {
				t.Errorf("CheckPrefix refuses %q, a prefix of the key %q: %v", key[:i], key, err)
			}
		}
	})
}

func TestBodies(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("0123456789"), 0o666); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		body storage.Body
		want string
	}{
		"no bytes":     {storage.Bytes(), ""},
		"empty slices": {storage.Bytes(nil, []byte{}), ""},
		"slices":       {storage.Bytes([]byte("ab"), nil, []byte("c"), []byte("defgh")), "abcdefgh"},
		"file":         {storage.File(path, 0, 10), "0123456789"},
		"part of file": {storage.File(path, 3, 4), "3456"},
		"end of file":  {storage.File(path, 10, 0), ""},
		"nothing":      {storage.Concat(), ""},
		"all": {storage.Concat(storage.Bytes(), storage.File(path, 1, 2), storage.Bytes([]byte("x")),
			storage.Concat(storage.Bytes([]byte("y"))), storage.Bytes()), "12xy"},
	} {
		if size := test.body.Size(); size != int64(len(test.want)) {
			t.Errorf("%s: size is %d, want %d", name, size, len(test.want))
		}
		for range 2 {
			r, err := storage.OpenExact(test.body)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if err := iotest.TestReader(r, []byte(test.want)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if err := r.Close(); err != nil {
				t.Errorf("%s: Close: %v", name, err)
			}
		}
	}
	for name, body := range map[string]storage.Body{
		"file that is too short": storage.File(path, 3, 8),
		"beyond the end":         storage.File(path, 11, 1),
		"short part":             storage.Concat(storage.File(path, 9, 2), storage.Bytes([]byte("x"))),
		"negative size":          storage.File(path, 0, -1),
	} {
		r, err := storage.OpenExact(body)
		if err == nil {
			_, err = io.ReadAll(r)
			r.Close()
		}
		if !errors.Is(err, storage.ErrSize) {
			t.Errorf("%s: error is %v, want %v", name, err, storage.ErrSize)
		}
	}
	if _, err := storage.OpenExact(storage.File(path+"x", 0, 1)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("file that does not exist: %v", err)
	}
}

// A countedBody counts its open readers.
type countedBody struct {
	storage.Body
	open *int
}

func (b countedBody) Open() (io.ReadCloser, error) {
	r, err := b.Body.Open()
	*b.open++
	return countedReader{r, b.open}, err
}

type countedReader struct {
	io.ReadCloser
	open *int
}

func (r countedReader) Close() error {
	*r.open--
	return r.ReadCloser.Close()
}

func TestConcatOpensOneAtATime(t *testing.T) {
	open := 0
	var bodies []storage.Body
	for range 5 {
		bodies = append(bodies, countedBody{storage.Bytes([]byte("ab")), &open})
	}
	for stop := range 11 {
		r, err := storage.Concat(bodies...).Open()
		if err != nil {
			t.Fatal(err)
		}
		for range stop {
			if _, err := io.ReadFull(r, make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			if open > 1 {
				t.Errorf("%d bodies are open", open)
			}
		}
		if err := r.Close(); err != nil || open != 0 {
			t.Errorf("closed after %d bytes: %d bodies are open, error %v", stop, open, err)
		}
	}
}

func TestRegistry(t *testing.T) {
	const secret = "s3cret"
	registry := storage.Registry{
		"memory": memory.Open,
		"db":     func(context.Context, *url.URL) (storage.Store, error) { return nil, storage.ErrPermission },
	}
	s, err := registry.Open(t.Context(), "memory:")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := registry.Open(t.Context(), "db://user:"+secret+"@host/"); !errors.Is(err, storage.ErrPermission) {
		t.Errorf("driver that fails: %v", err)
	}
	for _, rawURL := range []string{"", "data", "./data", "/data", "memory", "memory:x", "memory:?x", "other:", "other://user:" + secret + "@host/",
		"db://user:" + secret + "@host/%zz", "db://user:" + secret + "@host:x/", "db://user:" + secret + "@host/", "\x00"} {
		_, err := registry.Open(t.Context(), rawURL)
		if err == nil {
			t.Errorf("%q: no error", rawURL)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("%q: the error shows the password: %v", rawURL, err)
		}
	}
	_, err = registry.Open(t.Context(), "./data")
	if err == nil || !strings.Contains(err.Error(), "db, memory") {
		t.Errorf("error does not name the schemes: %v", err)
	}
}

func TestCheckMeta(t *testing.T) {
	if err := storage.CheckMeta(storage.Meta{ContentType: "multipart/mixed; boundary=\"a b\"", Data: bytes.Repeat([]byte{0}, storage.MaxMeta)}); err != nil {
		t.Error(err)
	}
}

// TestOpenFrom opens all kinds of bodies at every offset.
func TestOpenFrom(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("..file.."), 0o600); err != nil {
		t.Fatal(err)
	}
	body := storage.Concat(storage.Bytes([]byte("by"), nil, []byte("tes")), storage.Bytes(), storage.File(path, 2, 4),
		storage.Concat(plainBody{storage.Bytes([]byte("plain"))}, storage.Last(storage.Bytes([]byte("end")))))
	const want = "bytesfileplainend"
	for offset := range len(want) + 1 {
		r, err := storage.OpenFrom(body, int64(offset))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if err != nil || string(got) != want[offset:] {
			t.Errorf("from %d: got %q, %v", offset, got, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	if storage.CanOpenFrom(body) || !storage.CanOpenFrom(storage.Concat(storage.File(path, 0, 1), storage.Bytes())) {
		t.Error("CanOpenFrom is wrong")
	}
	last, stream := storage.Last(storage.Bytes()), storage.Last(plainBody{storage.Bytes()})
	if !storage.CanOpenFrom(last) || storage.CanOpenFrom(stream) || !storage.IsLast(last) || storage.IsLast(body) {
		t.Error("Last does not return the given body")
	}
	if _, err := storage.OpenFrom(plainBody{storage.Bytes([]byte("ab"))}, 3); err == nil {
		t.Error("opening beyond the end succeeded")
	}
}

// A plainBody is a body that can be opened only at its beginning.
type plainBody struct{ storage.Body }
