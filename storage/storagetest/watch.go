package storagetest

import (
	"context"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/storage"
)

// testWatch waits for a hint after each kind of change, including the first object below a prefix
// and the deletion of the last one. If a hint is missing, the test fails at its time limit.
func testWatch(t *testing.T, s *suite) {
	watcher := optional[storage.Watcher](t, s)
	for _, prefix := range []string{"x", "../", "", "x//"} {
		if _, err := watcher.Watch(t.Context(), prefix); err == nil {
			t.Errorf("Watch %q: no error", prefix)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watch := func(prefix string) <-chan struct{} {
		changed, err := watcher.Watch(ctx, prefix)
		if err != nil {
			t.Fatal(err)
		}
		return changed
	}
	// No object with these prefixes exists yet.
	watches := []<-chan struct{}{watch(s.key("a/b/")), watch(s.key("a/b/")), watch(s.key("a/")), watch(s.key("a/b/c/"))}
	gone, cancelGone := context.WithCancel(t.Context())
	defer cancelGone()
	ended, err := watcher.Watch(gone, s.key("a/b/"))
	if err != nil {
		t.Fatal(err)
	}
	keys := watchKeys(t, s, s.key("a/b/"))
	for round := range 2 {
		key := s.key("a/b/c/d")
		version := s.create(t, key, storage.Meta{}, "")
		awaitAll(watches)
		keys.await(key)
		version, err := s.store.Append(t.Context(), key, version, storage.Meta{}, storage.Bytes([]byte("x")))
		if err != nil {
			t.Fatal(err)
		}
		awaitAll(watches)
		keys.await(key)
		if _, err = s.store.Replace(t.Context(), key, version, storage.Meta{}, storage.Bytes()); err != nil {
			t.Fatal(err)
		}
		awaitAll(watches)
		keys.await(key)
		if err := s.store.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		awaitAll(watches)
		keys.await(key)
		if round == 0 {
			cancelGone()
			awaitClosed(ended)
		}
	}
	cancel()
	for _, changed := range watches {
		awaitClosed(changed)
	}
}

// keyHints receives the hints of a [storage.KeyWatcher]; it is nil if the store does not implement
// that interface.
type keyHints chan string

func watchKeys(t *testing.T, s *suite, prefix string) keyHints {
	t.Helper()
	watcher, ok := storage.As[storage.KeyWatcher](s.store)
	if !ok {
		return nil
	}
	hints := make(keyHints, 1000) // far more than the number of hints in the test
	if err := watcher.WatchKeys(t.Context(), "x", func(string) {}); err == nil {
		t.Error(`WatchKeys "x": no error`)
	}
	if err := watcher.WatchKeys(t.Context(), prefix, func(key string) { hints <- key }); err != nil {
		t.Fatal(err)
	}
	return hints
}

// await receives hints until a hint is the key or a prefix of it.
func (h keyHints) await(key string) {
	for h != nil {
		hint := <-h
		if hint == key || hint == "" || strings.HasSuffix(hint, "/") && strings.HasPrefix(key, hint) {
			return
		}
	}
}

// awaitAll receives a hint from each channel. Spurious hints may be pending, so this only shows
// that no hint was lost.
func awaitAll(watches []<-chan struct{}) {
	for _, changed := range watches {
		<-changed
	}
}

func awaitClosed(changed <-chan struct{}) {
	for range changed {
	}
}
