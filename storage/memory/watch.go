package memory

import (
	"context"
	"fmt"
	"strings"

	"github.com/feedctl/feedctl/storage"
)

type watch struct {
	prefix  string
	changed chan struct{} // holds one value
}

// Watch implements [storage.Watcher].
func (s *Store) Watch(ctx context.Context, prefix string) (<-chan struct{}, error) {
	if err := s.check(ctx); err != nil {
		return nil, fmt.Errorf("watch %q: %w", prefix, err)
	}
	if err := storage.CheckPrefix(prefix); err != nil {
		return nil, fmt.Errorf("watch %q: %w", prefix, err)
	}
	if !strings.HasSuffix(prefix, "/") {
		return nil, fmt.Errorf("watch %q: %w: prefix does not end in \"/\"", prefix, storage.ErrKey)
	}
	w := &watch{prefix: prefix, changed: make(chan struct{}, 1)}
	s.mu.Lock()
	s.watches[w] = struct{}{}
	s.mu.Unlock()
	context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.drop(w)
	})
	return w.changed, nil
}

// notify notifies the watches of key. The caller must hold mu.
func (s *Store) notify(key string) {
	for w := range s.watches {
		if strings.HasPrefix(key, w.prefix) {
			select {
			case w.changed <- struct{}{}:
			default:
			}
		}
	}
}

// drop ends a watch. The caller must hold mu.
func (s *Store) drop(w *watch) {
	if _, ok := s.watches[w]; ok {
		delete(s.watches, w)
		close(w.changed)
	}
}
