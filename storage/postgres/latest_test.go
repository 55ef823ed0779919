package postgres_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/feedctl/feedctl/internal/pgtest"
	"github.com/feedctl/feedctl/storage"
)

// TestLatest: the string of a prefix changes if and only if one of the last objects below the
// prefix changes.
func TestLatest(t *testing.T) {
	t.Parallel()
	store := open(t, pgtest.Start(t).URL("a"))
	defer store.Close()
	page := func(feed string, n int) string { return fmt.Sprintf("feeds/%s/pages/%03d", feed, n) }
	versions := map[string]storage.Version{}
	for n := range 40 {
		for _, feed := range []string{"a", "a-b", "b"} {
			versions[page(feed, n)] = put(t, store, page(feed, n))
		}
	}
	put(t, store, "feeds/c/floor")
	prefixes := []string{"feeds/a/pages/", "feeds/b/pages/", "feeds/c/pages/", "feeds/missing/pages/"}
	latest := func() map[string]string {
		t.Helper()
		got, err := store.Latest(t.Context(), prefixes, 17)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	before := latest()
	if len(before) != 2 || before[prefixes[0]] == "" || before[prefixes[1]] == "" {
		t.Fatalf("%v", before)
	}
	check := func(what string, changes bool) {
		t.Helper()
		now := latest()
		if now[prefixes[1]] != before[prefixes[1]] || (now[prefixes[0]] != before[prefixes[0]]) != changes {
			t.Errorf("%s: %v, before %v", what, now, before)
		}
		before = now
	}
	replace := func(key string) {
		t.Helper()
		at, err := store.Replace(t.Context(), key, versions[key], storage.Meta{}, storage.Bytes([]byte("new")))
		if err != nil {
			t.Fatal(err)
		}
		versions[key] = at
	}
	check("nothing", false)
	for n, changes := range map[int]bool{39: true, 30: true, 23: true, 22: false, 0: false} {
		replace(page("a", n))
		check(fmt.Sprint("page ", n), changes)
	}
	replace(page("a-b", 39))
	check("other feed", false)
	put(t, store, page("a", 40))
	check("new page", true)
	if err := store.Delete(t.Context(), page("a", 40)); err != nil {
		t.Fatal(err)
	}
	check("page deleted", true)
	if got, err := store.Latest(t.Context(), nil, 17); err != nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := store.Latest(t.Context(), []string{"ü/"}, 17); !errors.Is(err, storage.ErrKey) {
		t.Error(err)
	}
}
