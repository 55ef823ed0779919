package storagetest

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/storage"
)

// testNames compares the names below prefixes with a sorted slice, starting after each name
// and after strings that are not names.
func testNames(t *testing.T, s *suite) {
	for _, name := range []string{
		"a/1", "a/2", "a-b/1", "a.b/x/y", "a0/1", "aa/1", "aa/2", "A/b/c/1", "b/1", "c", "c-d", "c-/1", "z/9/1", "z/9/2", "z/10/1",
	} {
		s.create(t, s.key(name), storage.Meta{}, name)
	}
	var many []string // more names than a driver reads at a time
	for i := range 40 {
		many = append(many, strconv.Itoa(100+i))
		s.create(t, s.key("many/"+many[i]+"/1"), storage.Meta{}, "")
	}
	for prefix, want := range map[string][]string{
		s.prefix:          {"A", "a-b", "a.b", "a", "a0", "aa", "b", "c-", "many", "z"},
		s.key("many/"):    many,
		s.key("A/"):       {"b"},
		s.key("a/"):       nil,
		s.key("z/"):       {"10", "9"},
		s.key("missing/"): nil,
	} {
		checkNames(t, s, prefix, "", want)
		for i, name := range want {
			checkNames(t, s, prefix, name, want[i+1:])
		}
		for _, after := range []string{"-", "a-", "a1", "c", "~"} {
			i, _ := slices.BinarySearchFunc(want, after+"/", func(name, after string) int { return strings.Compare(name+"/", after) })
			checkNames(t, s, prefix, after, want[i:])
		}
	}
	for _, prefix := range []string{"a", "//", "../", "a b/", "/"} {
		if _, err := collect(storage.Names(t.Context(), s.store, prefix, "")); !errors.Is(err, storage.ErrKey) {
			t.Errorf("names below %q: got error %v, want one that matches %v", prefix, err, storage.ErrKey)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := collect(storage.Names(ctx, s.store, s.prefix, "")); !errors.Is(err, context.Canceled) {
		t.Errorf("names with a cancelled context: got error %v", err)
	}
}

func checkNames(t *testing.T, s *suite, prefix, after string, want []string) {
	t.Helper()
	got, err := collect(storage.Names(t.Context(), s.store, prefix, after))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, want) {
		t.Errorf("names below %q after %q: got %q, want %q", prefix, after, got, want)
	}
}

func collect(names iter.Seq2[string, error]) (got []string, err error) {
	for name, err := range names {
		if err != nil {
			return got, err
		}
		got = append(got, name)
	}
	return got, nil
}
