package watch

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/feedctl/feedctl/layout"
	"github.com/feedctl/feedctl/storage"
)

// Files watches stores in directories. A feed is compared when the operating system reports a change
// (inotify and the like). It is also compared every second after a change and eventually only every 10 s,
// since notifications may be lost, and changes made on other machines cause none.
type Files struct {
	// Open opens the store at a URL with a credential.
	Open func(ctx context.Context, server, credential string) (storage.Store, error)
}

// Watch implements [Source].
func (f Files) Watch(ctx context.Context, w *Watched) error {
	store, err := f.Open(ctx, w.Server, w.Credential)
	if err != nil {
		return err
	}
	defer store.Close()
	p := poller{watched: w, fastest: time.Second, slowest: 10 * time.Second, round: time.Second, most: 2000, compare: heads{store}.compare}
	if watcher, ok := storage.As[storage.KeyWatcher](store); ok {
		p.hints = newHints()
		if err := watcher.WatchKeys(ctx, layout.FeedsPrefix, p.hints.changed); err != nil {
			w.Logger.Debug("no notifications of changes, comparing feeds", "error", err)
		}
	}
	return p.run(ctx, 0)
}

// hints collects the names of feeds that may have changed.
type hints struct {
	ready chan struct{} // holds a value if there are hints

	mu    sync.Mutex
	names map[string]bool
	all   bool
}

func newHints() *hints { return &hints{ready: make(chan struct{}, 1), names: map[string]bool{}} }

// changed adds the feed to which a key belongs, or all feeds if the key does not belong to one.
func (h *hints) changed(key string) {
	name, _, ok := strings.Cut(strings.TrimPrefix(key, layout.FeedsPrefix), "/")
	if ok {
		h.add(name)
		return
	}
	h.mu.Lock()
	h.all = true
	h.mu.Unlock()
	h.signal()
}

// add adds the name of a feed.
func (h *hints) add(name string) {
	h.mu.Lock()
	h.names[name] = true
	h.mu.Unlock()
	h.signal()
}

func (h *hints) signal() {
	select {
	case h.ready <- struct{}{}:
	default:
	}
}

// take returns the names that were added since the last call, and whether all feeds were.
func (h *hints) take() (names map[string]bool, all bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	names, all = h.names, h.all
	h.names, h.all = map[string]bool{}, false
	return names, all
}
