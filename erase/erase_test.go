package erase_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/chain"
	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/erase"
	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/file"
	"github.com/feedctl/feedctl/storage/memory"
)

// TestRandom erases a key from random histories. No trace of its data is left in the store, and a consumer
// that had read any part of the feed before reads the rest exactly once, and ends with the same state as all
// others.
func TestRandom(t *testing.T) {
	for n := range 60 {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, uint64(n)))
			store := memory.New()
			check(t, publish(t.Context(), store, history(random, random.IntN(20)+1)...))
			testErase(t, store)
			check(t, publish(t.Context(), store, history(random, 5)...)) // the feed already has some of these Content-IDs
			testErase(t, store)
		})
	}
}

func testErase(t *testing.T, store storage.Store) {
	t.Helper()
	before := read(t, store, consumer.Beginning())
	checkpoint := newest(t, store).Checkpoint
	plan, err := erase.Find(t.Context(), store, testFeed, erase.Config{Keys: []string{ann}})
	check(t, err)
	report, err := plan.Run(t.Context())
	check(t, err)
	if found := plan.Report(); report.Entities != found.Entities || report.Kept != 0 {
		t.Errorf("%+v, the plan was %+v", report, found)
	}
	after := read(t, store, consumer.Beginning())
	if got := traces(t, store, secret); got != nil {
		t.Errorf("the secret is left in %v", got)
	}
	verified(t, store)
	for i, e := range before {
		same := after[i].ContentID == e.ContentID && after[i].Key() == e.Key() && after[i].LastModified.Equal(e.LastModified)
		if e.Key() != ann {
			same = same && string(after[i].Body) == string(e.Body) && after[i].Operation == e.Operation && slices.Equal(after[i].Header, e.Header)
		}
		if !same {
			t.Errorf("entity %d was %+v, is %+v", i, e, after[i])
		}
	}
	final := apply(nil, after...)
	if want := without(apply(nil, before...)); !maps.Equal(final, want) {
		t.Errorf("the state is %v, want %v", final, want)
	}
	for i := range before {
		rest := read(t, store, consumer.After(before[i].position))
		if !slices.Equal(ids(rest), ids(after[i+1:])) {
			t.Errorf("after %+v: %v, want %v", before[i].position, ids(rest), ids(after[i+1:]))
		}
		if got := apply(apply(nil, before[:i+1]...), rest...); !maps.Equal(got, final) {
			t.Errorf("after %+v: %v, want %v", before[i].position, got, final)
		}
	}
	if got := newest(t, store).Checkpoint; string(got) != string(checkpoint) {
		t.Errorf("checkpoint %q, was %q", got, checkpoint)
	}
	again, err := erase.Find(t.Context(), store, testFeed, erase.Config{Keys: []string{ann}})
	check(t, err)
	if !again.IsEmpty() {
		t.Errorf("after the erasure, there is more to erase: %+v", again.Report())
	}
}

// TestFiles looks for the secret in all files of a store.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	store, err := file.New(dir)
	check(t, err)
	check(t, publish(t.Context(), store, history(rand.New(rand.NewPCG(2, 2)), 40)...))
	testErase(t, store)
	if got := filesWith(t, dir, secret); got != nil {
		t.Errorf("the secret is left in %v", got)
	}
}

// filesWith returns those files below a directory that contain the given text.
func filesWith(t *testing.T, dir, text string) (found []string) {
	t.Helper()
	check(t, filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), text) {
			found = append(found, path)
		}
		return err
	}))
	return found
}

func TestNothing(t *testing.T) {
	store := memory.New()
	if _, err := eraseKeys(t.Context(), store, erase.Config{}); !errors.Is(err, chain.ErrNoFeed) {
		t.Errorf("without a feed: %v", err)
	}
	check(t, publish(t.Context(), store, entity(1, "bob", feed.Put)))
	page := newest(t, store)
	report, err := eraseKeys(t.Context(), store, erase.Config{Keys: []string{"zoe", ann}})
	if err != nil || !slices.Equal(report.Unknown, []string{ann, "zoe"}) || newest(t, store).Version != page.Version {
		t.Errorf("%+v, %v", report, err)
	}
	for _, keys := range [][]string{{}, {""}} {
		if _, err := erase.Find(t.Context(), store, testFeed, erase.Config{Keys: keys}); err == nil {
			t.Errorf("keys %q are accepted", keys)
		}
	}
}
