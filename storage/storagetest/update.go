package storagetest

import (
	"strings"
	"testing"

	"github.com/feedctl/feedctl/storage"
)

func testAppend(t *testing.T, s *suite) {
	ctx, key := t.Context(), s.key("a")
	body := ""
	version := s.create(t, key, storage.Meta{ContentType: "a/b"}, body)
	seen := map[storage.Version]bool{version: true}
	for i, tail := range []string{"", "one", "", "\r\n", strings.Repeat("long", 100_000), "end"} {
		body += tail
		meta := claimOf("a", i, []byte(body))
		next, err := s.store.Append(ctx, key, version, meta, storage.Bytes([]byte(tail)))
		if err != nil {
			t.Fatal(err)
		}
		if seen[next] {
			t.Errorf("append %d: version %q is not new", i, next)
		}
		seen[next] = true
		is(t, s.store, key, next, meta, []byte(body))

		// The previous version is no longer valid.
		was := take(t, s.store, key)
		_, err = s.store.Append(ctx, key, version, storage.Meta{}, storage.Bytes([]byte("x")))
		wantError(t, "Append at an old version", err, storage.ErrConflict)
		unchanged(t, s.store, key, was)
		version = next
	}
	conflicts(t, s, s.store.Append)
}

func testReplace(t *testing.T, s *suite) {
	ctx, key := t.Context(), s.key("a")
	version := s.create(t, key, storage.Meta{ContentType: "a/b"}, "first")
	for i, body := range []string{"", "second", "third and longer", "4", "4"} {
		meta := claimOf("a", i, []byte(body))
		next, err := s.store.Replace(ctx, key, version, meta, storage.Bytes([]byte(body)))
		if err != nil {
			t.Fatal(err)
		}
		if next == version {
			t.Errorf("replace %d: version %q is not new", i, next)
		}
		is(t, s.store, key, next, meta, []byte(body))

		was := take(t, s.store, key)
		_, err = s.store.Replace(ctx, key, version, storage.Meta{}, storage.Bytes([]byte("x")))
		wantError(t, "Replace at an old version", err, storage.ErrConflict)
		unchanged(t, s.store, key, was)
		version = next
	}
	// Append works for an object that was replaced, too.
	version, err := s.store.Append(ctx, key, version, storage.Meta{}, storage.Bytes([]byte("2")))
	if err != nil {
		t.Fatal(err)
	}
	is(t, s.store, key, version, storage.Meta{}, []byte("42"))
	conflicts(t, s, s.store.Replace)
}

// conflicts tests a conditional write on missing objects and at outdated versions.
func conflicts(t *testing.T, s *suite, write writeFunc) {
	ctx, key := t.Context(), s.key("conflicts")
	x := storage.Bytes([]byte("x"))
	for _, version := range []storage.Version{"", "1", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "no such version"} {
		_, err := write(ctx, key, version, storage.Meta{}, x)
		wantError(t, "write to nothing", err, storage.ErrConflict)
		unchanged(t, s.store, key, nil)
	}
	first := s.create(t, key, storage.Meta{}, "body")
	was := take(t, s.store, key)
	for _, version := range []storage.Version{"", "no such version", first + "0"} {
		_, err := write(ctx, key, version, storage.Meta{}, x)
		wantError(t, "write at a wrong version", err, storage.ErrConflict)
		unchanged(t, s.store, key, was)
	}
	if err := s.store.Delete(ctx, key); err != nil {
		t.Fatal(err)
	}
	_, err := write(ctx, key, first, storage.Meta{}, x)
	wantError(t, "write to a deleted object", err, storage.ErrConflict)
	unchanged(t, s.store, key, nil)

	// An object that is created again with the same content has another version.
	s.create(t, key, storage.Meta{}, "body")
	was = take(t, s.store, key)
	_, err = write(ctx, key, first, storage.Meta{}, x)
	wantError(t, "write at a version before Delete and Create", err, storage.ErrConflict)
	unchanged(t, s.store, key, was)
}

func testDelete(t *testing.T, s *suite) {
	ctx := t.Context()
	for _, name := range []string{"never", "there/never"} {
		if err := s.store.Delete(ctx, s.key(name)); err != nil {
			t.Errorf("Delete of a missing object: %v", err)
		}
	}
	s.create(t, s.key("dir/a"), storage.Meta{}, "a")
	version := s.create(t, s.key("dir/b"), storage.Meta{}, "b")
	for range 2 {
		if err := s.store.Delete(ctx, s.key("dir/a")); err != nil {
			t.Fatal(err)
		}
		unchanged(t, s.store, s.key("dir/a"), nil)
		is(t, s.store, s.key("dir/b"), version, storage.Meta{}, []byte("b"))
	}
	if err := s.store.Delete(ctx, s.key("dir/b")); err != nil {
		t.Fatal(err)
	}
	if got := s.list(t, s.prefix, ""); len(got) > 0 {
		t.Errorf("after all objects were deleted, List yields %q", got)
	}
	version = s.create(t, s.key("dir/a"), storage.Meta{}, "again")
	is(t, s.store, s.key("dir/a"), version, storage.Meta{}, []byte("again"))
}
