package storagetest

import (
	"strings"
	"testing"

	"github.com/feedctl/feedctl/storage"
)

func testCreate(t *testing.T, s *suite) {
	key, meta := s.key("a"), claimOf("a", 1, nil)
	if take(t, s.store, key) != nil {
		t.Fatal("the store is not empty")
	}
	version := s.create(t, key, meta, "hello\x00\xff\r\n")
	is(t, s.store, key, version, meta, []byte("hello\x00\xff\r\n"))

	was := take(t, s.store, key)
	_, err := s.store.Create(t.Context(), key, storage.Meta{}, storage.Bytes([]byte("other")))
	wantError(t, "Create again", err, storage.ErrExists)
	unchanged(t, s.store, key, was)

	version = s.create(t, s.key("empty"), storage.Meta{}, "")
	is(t, s.store, s.key("empty"), version, storage.Meta{}, nil)

	// A body may consist of several slices, even empty ones.
	version, err = s.store.Create(t.Context(), s.key("pieces"), storage.Meta{},
		storage.Concat(storage.Bytes([]byte("one"), nil, []byte("two")), storage.Bytes(), storage.Bytes([]byte("three"))))
	if err != nil {
		t.Fatal(err)
	}
	is(t, s.store, s.key("pieces"), version, storage.Meta{}, []byte("onetwothree"))
}

func testKeys(t *testing.T, s *suite) {
	room := storage.MaxKey - len(s.prefix)
	long := strings.Repeat(strings.Repeat("x", storage.MaxSegment)+"/", 3)[:room-1] + "y"
	for _, name := range []string{
		"0", "A", "a", "-", "_", "...", ".a", "..a", "a.", "a..b", "tmp", "version",
		"dir/a", "dir-a", "dir.a", "dir0", "dir/b/c", "a1/b2/c3/d4/e5/f6",
		strings.Repeat("s", storage.MaxSegment), long,
	} {
		key := s.key(name)
		meta := claimOf(name, 1, []byte(name))
		version := s.create(t, key, meta, name)
		is(t, s.store, key, version, meta, []byte(name))
	}
	for _, name := range []string{
		"", "/", "/a", "a/", "a//b", ".", "..", "./a", "a/.", "../a", "a/..", "a/../b",
		"a b", "a\x00", "a\n", "a@b", "a@meta", "ä", "a\\b", "a:b", "a+b", "a%b", "\xff", "a~", "a*",
		strings.Repeat("s", storage.MaxSegment+1), long + "z",
	} {
		ctx, key := t.Context(), s.key(name)
		if name == "" && s.prefix != "" {
			key = strings.TrimSuffix(s.prefix, "/") + "//"
		}
		body := storage.Bytes([]byte("x"))
		_, err := s.store.Create(ctx, key, storage.Meta{}, body)
		wantError(t, "Create "+key, err, storage.ErrKey)
		_, err = s.store.Append(ctx, key, "1", storage.Meta{}, body)
		wantError(t, "Append "+key, err, storage.ErrKey)
		_, err = s.store.Replace(ctx, key, "1", storage.Meta{}, body)
		wantError(t, "Replace "+key, err, storage.ErrKey)
		_, err = s.store.Get(ctx, key, 0, -1)
		wantError(t, "Get "+key, err, storage.ErrKey)
		_, err = s.store.Stat(ctx, key)
		wantError(t, "Stat "+key, err, storage.ErrKey)
		wantError(t, "Delete "+key, s.store.Delete(ctx, key), storage.ErrKey)
	}
}

func testMeta(t *testing.T, s *suite) {
	largest := storage.Meta{
		ContentType:  strings.Repeat("t", storage.MaxHeader),
		CacheControl: "public, max-age=31536000, immutable; \"<>&\\",
		Data:         make([]byte, storage.MaxMeta),
	}
	for i := range largest.Data {
		largest.Data[i] = byte(i * 7)
	}
	key := s.key("a")
	version := s.create(t, key, largest, "x")
	is(t, s.store, key, version, largest, []byte("x"))

	// If the caller changes the slice of the metadata later, the store is not affected.
	mine := storage.Meta{Data: []byte("mine")}
	version = s.create(t, s.key("b"), mine, "x")
	mine.Data[0] = 'X'
	take(t, s.store, s.key("b")).Info.Meta.Data[0] = 'Y'
	is(t, s.store, s.key("b"), version, storage.Meta{Data: []byte("mine")}, []byte("x"))

	for name, bad := range map[string]storage.Meta{
		"data":           {Data: make([]byte, storage.MaxMeta+1)},
		"long type":      {ContentType: strings.Repeat("t", storage.MaxHeader+1)},
		"line in type":   {ContentType: "text/plain\r\nX: y"},
		"not ASCII":      {CacheControl: "\xff"},
		"NUL in control": {CacheControl: "a\x00"},
	} {
		was := take(t, s.store, key)
		_, err := s.store.Create(t.Context(), s.key("c"), bad, storage.Bytes())
		wantError(t, name+": Create", err, storage.ErrMeta)
		unchanged(t, s.store, s.key("c"), nil)
		_, err = s.store.Append(t.Context(), key, was.Info.Version, bad, storage.Bytes())
		wantError(t, name+": Append", err, storage.ErrMeta)
		_, err = s.store.Replace(t.Context(), key, was.Info.Version, bad, storage.Bytes())
		wantError(t, name+": Replace", err, storage.ErrMeta)
		unchanged(t, s.store, key, was)
	}
}
