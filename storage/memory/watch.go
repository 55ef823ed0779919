package memory

import (
	"context"
	"fmt"
	"strings"

	"github.com/feedctl/feedctl/storage"
)

type watch struct {
	prefix  string
	changed func(key string)
	end     func()
}

// Watch implements [storage.Watcher].
func (s *Store) Watch(ctx context.Context, prefix string) (<-chan struct{}, error) {
	changed := make(chan struct{}, 1)
	notify := func(string) {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	if err := s.watch(ctx, &watch{prefix, notify, func() { close(changed) }}); err != nil {
		return nil, err
	}
	return changed, nil
}

// WatchKeys implements [storage.KeyWatcher].
func (s *Store) WatchKeys(ctx context.Context, prefix string, changed func(key string)) error {
	return s.watch(ctx, &watch{prefix, changed, func() {}})
}

func (s *Store) watch(ctx context.Context, w *watch) error {
	err := s.check(ctx)
	if err == nil {
		err = storage.CheckPrefix(w.prefix)
	}
	if err == nil && !strings.HasSuffix(w.prefix, "/") {
		err = fmt.Errorf("%w: prefix does not end in \"/\"", storage.ErrKey)
	}
	if err != nil {
		return fmt.Errorf("watch %q: %w", w.prefix, err)
	}
	s.mu.Lock()
	s.watches[w] = struct{}{}
	s.mu.Unlock()
	context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.drop(w)
	})
	return nil
}

// notify notifies the watches of key. The caller must hold mu.
func (s *Store) notify(key string) {
	for w := range s.watches {
		if strings.HasPrefix(key, w.prefix) {
			w.changed(key)
		}
	}
}

// drop ends a watch. The caller must hold mu.
func (s *Store) drop(w *watch) {
	if _, ok := s.watches[w]; ok {
		delete(s.watches, w)
		w.end()
	}
}
