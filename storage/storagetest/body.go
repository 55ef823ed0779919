package storagetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/feedctl/feedctl/storage"
)

// A writeFunc is the method Append or Replace of a store.
type writeFunc func(context.Context, string, storage.Version, storage.Meta, storage.Body) (storage.Version, error)

// A testBody is a body whose declared size may be wrong.
type testBody struct {
	size int64
	open func() (io.ReadCloser, error)
}

func (b testBody) Size() int64                  { return b.size }
func (b testBody) Open() (io.ReadCloser, error) { return b.open() }

var errBody = errors.New("this body cannot be read")

type badClose struct{ io.Reader }

func (badClose) Close() error { return errBody }

// testBodies writes small bodies, and bodies larger than any buffer, that cannot be read or do not
// have their declared size.
func testBodies(t *testing.T, s *suite) {
	for name, size := range map[string]int{"small": 10, "large": 600<<10 + 7} {
		t.Run(name, func(t *testing.T) { testBadBodies(t, s, name, strings.Repeat("x", size)) })
	}
	// Readers may return a few bytes at a time, and io.EOF together with the last bytes.
	data := bytes.Repeat([]byte("0123456789"), 1000)
	for name, wrap := range map[string]func(io.Reader) io.Reader{
		"one byte": iotest.OneByteReader, "half": iotest.HalfReader, "end with data": iotest.DataErrReader,
	} {
		body := testBody{int64(len(data)), func() (io.ReadCloser, error) {
			return io.NopCloser(wrap(bytes.NewReader(data))), nil
		}}
		key := s.key(strings.ReplaceAll(name, " ", "-"))
		version, err := s.store.Create(t.Context(), key, storage.Meta{}, body)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		is(t, s.store, key, version, storage.Meta{}, data)
	}
}

// testDigested uses each method to write bodies with a known digest.
func testDigested(t *testing.T, s *suite) {
	digested := func(text string) storage.Body {
		state := sha256.New().(hash.Cloner)
		io.WriteString(state, text)
		return storage.WithSHA256(storage.Bytes([]byte(text)), state)
	}
	ctx, key := t.Context(), s.key("digested")
	version, err := s.store.Create(ctx, key, storage.Meta{}, digested("created"))
	if err != nil {
		t.Fatal(err)
	}
	is(t, s.store, key, version, storage.Meta{}, []byte("created"))
	long := storage.Meta{Data: bytes.Repeat([]byte("m"), storage.MaxMeta)}
	if version, err = s.store.Append(ctx, key, version, long, digested(" and appended")); err != nil {
		t.Fatal(err)
	}
	is(t, s.store, key, version, long, []byte("created and appended"))
	if version, err = s.store.Replace(ctx, key, version, long, digested("replaced")); err != nil {
		t.Fatal(err)
	}
	is(t, s.store, key, version, long, []byte("replaced"))
	if version, err = s.store.Append(ctx, key, version, storage.Meta{}, storage.Bytes([]byte(" and again"))); err != nil {
		t.Fatal(err)
	}
	is(t, s.store, key, version, storage.Meta{}, []byte("replaced and again"))
}

func testBadBodies(t *testing.T, s *suite, key, data string) {
	ctx, key, size := t.Context(), s.key(key), int64(len(data))
	reader := func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(data)), nil }
	s.create(t, key, storage.Meta{}, "good")
	was := take(t, s.store, key)
	for _, bad := range []struct {
		name string
		body testBody
		want error
	}{
		{"one byte more than declared", testBody{size - 1, reader}, storage.ErrSize},
		{"much more than declared", testBody{1, reader}, storage.ErrSize},
		{"more than nothing", testBody{0, reader}, storage.ErrSize},
		{"one byte less than declared", testBody{size + 1, reader}, storage.ErrSize},
		{"much less than declared", testBody{10 * size, reader}, storage.ErrSize},
		{"negative size", testBody{-1, reader}, storage.ErrSize},
		{"Open fails", testBody{size, func() (io.ReadCloser, error) { return nil, errBody }}, errBody},
		{"Read fails at once", testBody{size, func() (io.ReadCloser, error) {
			return io.NopCloser(iotest.ErrReader(errBody)), nil
		}}, errBody},
		{"Read fails midway", testBody{size, func() (io.ReadCloser, error) {
			return io.NopCloser(io.MultiReader(strings.NewReader(data[:size/2]), iotest.ErrReader(errBody))), nil
		}}, errBody},
		{"Read fails at the end", testBody{size, func() (io.ReadCloser, error) {
			return io.NopCloser(io.MultiReader(strings.NewReader(data), iotest.ErrReader(errBody))), nil
		}}, errBody},
		{"Read is cut short", testBody{size, func() (io.ReadCloser, error) {
			return io.NopCloser(io.MultiReader(strings.NewReader(data[:size/2]), iotest.ErrReader(io.ErrUnexpectedEOF))), nil
		}}, io.ErrUnexpectedEOF},
		{"Close fails", testBody{size, func() (io.ReadCloser, error) {
			return badClose{strings.NewReader(data)}, nil
		}}, errBody},
		{"one part too long, one too short", testBody{size, storage.Concat(
			testBody{size - 2, reader}, testBody{2, func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("")), nil }},
		).Open}, storage.ErrSize},
	} {
		_, err := s.store.Create(ctx, key+"-new", storage.Meta{}, bad.body)
		wantError(t, "Create: "+bad.name, err, bad.want)
		unchanged(t, s.store, key+"-new", nil)
		_, err = s.store.Append(ctx, key, was.Info.Version, storage.Meta{}, bad.body)
		wantError(t, "Append: "+bad.name, err, bad.want)
		unchanged(t, s.store, key, was)
		_, err = s.store.Replace(ctx, key, was.Info.Version, storage.Meta{}, bad.body)
		wantError(t, "Replace: "+bad.name, err, bad.want)
		unchanged(t, s.store, key, was)
	}
	// Other writes to the object must still succeed.
	version, err := s.store.Append(ctx, key, was.Info.Version, storage.Meta{}, storage.Bytes([]byte(" and more")))
	if err != nil {
		t.Fatal(err)
	}
	is(t, s.store, key, version, storage.Meta{}, []byte("good and more"))
}
