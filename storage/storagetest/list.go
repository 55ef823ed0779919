package storagetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/storage"
)

func (s *suite) list(t *testing.T, prefix, after string) []string {
	t.Helper()
	var keys []string
	for entry, err := range s.store.List(t.Context(), prefix, after) {
		if err != nil {
			t.Fatalf("List %q after %q: %v", prefix, after, err)
		}
		keys = append(keys, entry.Key)
	}
	return keys
}

// testList compares listings with a sorted slice. The prefixes and starting points are equal to
// keys, between keys, and beyond all keys.
func testList(t *testing.T, s *suite) {
	// "-" and "." sort before "/", and all other characters of keys sort after it.
	names := []string{
		"a-b", "a.b", "a/b", "a/b-c", "a/bb", "a0", "aa", "a-/b", "a-/b.", "a./b", "a0/b", "a/c/d/e", "a/c/d-e",
		"A/b", "_/b", "-/b", "0", "z/0", "z/1", "z/10", "z/2", "z/a/0", "z/a-", "z.", "zz/..z",
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		const letters = "-./0aA"
		name := make([]byte, 1+rng.IntN(6))
		for i := range name {
			name[i] = letters[rng.IntN(len(letters))]
		}
		if storage.CheckKey(string(name)) == nil {
			names = append(names, string(name))
		}
	}
	var keys []string
	for _, name := range names {
		key := s.key(name)
		if nested := slices.ContainsFunc(keys, func(other string) bool {
			return key == other || strings.HasPrefix(key, other+"/") || strings.HasPrefix(other, key+"/")
		}); nested {
			continue
		}
		s.create(t, key, storage.Meta{}, name)
		keys = append(keys, key)
	}
	slices.Sort(keys)

	points := map[string]bool{"": true, s.prefix: true}
	for _, key := range keys {
		for i := len(s.prefix); i <= len(key); i++ {
			points[key[:i]] = true
		}
		points[key+"-"], points[key+"/"], points[key+"0"], points[key+"~"] = true, true, true, true
	}
	for point := range points {
		checkList(t, s, keys, s.prefix, point)
		if storage.CheckPrefix(point) == nil {
			checkList(t, s, keys, point, "")
			checkList(t, s, keys, point, keys[rng.IntN(len(keys))])
		}
	}
	for _, prefix := range []string{"//", "a//", "../", "a b", "@", "./", "/", strings.Repeat("x", storage.MaxKey+1)} {
		var errs []error
		for _, err := range s.store.List(t.Context(), prefix, "") {
			errs = append(errs, err)
		}
		if len(errs) != 1 || !errors.Is(errs[0], storage.ErrKey) {
			t.Errorf("List %q: got errors %v, want one that matches %v", prefix, errs, storage.ErrKey)
		}
	}
	testPages(t, s, keys)

	for entry, err := range s.store.List(t.Context(), s.key("z/10"), "") {
		info, serr := s.store.Stat(t.Context(), s.key("z/10"))
		want := storage.Entry{Key: info.Key, Size: 4, Modified: info.Modified}
		if s.opts.LargerSizes && entry.Size > want.Size {
			want.Size = entry.Size
		}
		if err != nil || serr != nil || entry != want {
			t.Errorf("List: got %v, %v, %v, want %v", entry, err, serr, want)
		}
	}
}

func checkList(t *testing.T, s *suite, keys []string, prefix, after string) {
	t.Helper()
	var want []string
	for _, key := range keys {
		if strings.HasPrefix(key, prefix) && key > after {
			want = append(want, key)
		}
	}
	if diff := cmp.Diff(want, s.list(t, prefix, after)); diff != "" {
		t.Errorf("List %q after %q (-want +got):\n%s", prefix, after, diff)
	}
}

// testPages lists a few entries at a time, each time beginning after the last entry that was
// listed.
func testPages(t *testing.T, s *suite, keys []string) {
	for _, size := range []int{1, 3, len(keys)} {
		var got []string
		after := ""
		for {
			n := 0
			for entry, err := range s.store.List(t.Context(), s.prefix, after) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, entry.Key)
				after = entry.Key
				if n++; n == size {
					break
				}
			}
			if n == 0 {
				break
			}
		}
		if diff := cmp.Diff(keys, got); diff != "" {
			t.Errorf("listed in pages of %d (-want +got):\n%s", size, diff)
		}
	}
}

// testListWhileWriting lists objects while others are being created, deleted and changed. The
// objects that stay must be listed once and in order.
func testListWhileWriting(t *testing.T, s *suite) {
	var stay []string
	for i := range 50 {
		key := s.key(fmt.Sprintf("d%d/%02d", i%2, i))
		stay = append(stay, key)
		s.create(t, key, storage.Meta{}, "")
	}
	slices.Sort(stay)
	ctx, stop := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	for w := range 2 {
		writers.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				key := s.key(fmt.Sprintf("d%d/%02d-%d", w, i%50, w))
				if w == 1 {
					key = s.key(fmt.Sprintf("e%d/x", i%3)) // the directory of this key is created and removed, too
				}
				if _, err := s.store.Create(t.Context(), key, storage.Meta{}, storage.Bytes()); err != nil {
					t.Errorf("Create: %v", err)
					return
				}
				if err := s.store.Delete(t.Context(), key); err != nil {
					t.Errorf("Delete: %v", err)
					return
				}
			}
		})
	}
	for range 50 {
		got := s.list(t, s.prefix, "")
		if !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) {
			t.Errorf("List is not in order: %q", got)
		}
		for _, key := range stay {
			if _, ok := slices.BinarySearch(got, key); !ok {
				t.Errorf("List lacks %s", key)
			}
		}
	}
	stop()
	writers.Wait()
}
