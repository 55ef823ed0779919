//go:build unix

package file

import (
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/fsnotify/fsnotify"

	"github.com/feedctl/feedctl/storage"
)

// Watch implements [storage.Watcher] with file system notifications. It returns an error if
// notifications are not supported or there are too many watches; the caller must then poll. Changes
// made by other machines are not noticed. The channel is also closed by Close.
func (s *Store) Watch(ctx context.Context, prefix string) (<-chan struct{}, error) {
	changed := make(chan struct{}, 1)
	notify := func(string) {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	if err := s.watch(ctx, prefix, notify, func() { close(changed) }); err != nil {
		return nil, err
	}
	return changed, nil
}

// WatchKeys implements [storage.KeyWatcher]. It returns the same errors as [Store.Watch].
func (s *Store) WatchKeys(ctx context.Context, prefix string, changed func(key string)) error {
	return s.watch(ctx, prefix, changed, func() {})
}

func (s *Store) watch(ctx context.Context, prefix string, changed func(key string), end func()) error {
	err := storage.CheckPrefix(prefix)
	if err == nil && !strings.HasSuffix(prefix, "/") {
		err = fmt.Errorf("%w: prefix does not end in \"/\"", storage.ErrKey)
	}
	sub := &subscription{path: s.inObjects(prefix), changed: changed, end: end}
	if err == nil {
		err = s.watches.add(sub)
	}
	if err != nil {
		return fmt.Errorf("watch %q: %w", prefix, err)
	}
	context.AfterFunc(ctx, func() { s.watches.remove(sub) })
	return nil
}

// watches holds the subscriptions of a store. They share one notifier, since the number of
// notifiers per user is limited.
//
// For each subscription, the directory of its prefix is watched, along with all directories above
// and below it. Any of these may be created and removed at any time.
type watches struct {
	objects string // the top directory

	mu       sync.Mutex
	closed   bool
	notifier *fsnotify.Watcher // nil if there are no subscriptions
	top      *watchedDir       // of the objects
}

// A subscription reports changes of the objects below a directory. Its functions are called with mu
// held and must return at once.
type subscription struct {
	path    string
	changed func(key string) // "" stands for any
	end     func()
	dir     *watchedDir // nil if not subscribed
}

func (w *watches) add(sub *subscription) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return os.ErrClosed
	}
	if w.notifier == nil {
		notifier, err := fsnotify.NewWatcher()
		if err != nil {
			return err
		}
		w.notifier = notifier
		w.top = &watchedDir{path: w.objects}
		go w.run(notifier)
	}
	dir := w.top
	for name := range w.names(sub.path) {
		dir = dir.child(name)
	}
	followed := dir.watched && dir.covered()
	dir.subscribe(sub)
	if followed {
		return nil
	}
	if err := w.follow(dir); err != nil {
		w.drop(sub)
		return err
	}
	return nil
}

func (w *watches) remove(sub *subscription) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if sub.dir != nil {
		w.drop(sub)
	}
}

// drop ends a subscription and stops watching directories that no other subscription needs.
func (w *watches) drop(sub *subscription) {
	dir := sub.dir
	dir.unsubscribe(sub)
	sub.end()
	switch {
	case w.top.below == 0:
		w.stop()
	case dir.covered():
		dir.prune()
	default:
		for dir.below == 0 && dir.parent.below == 0 {
			dir = dir.parent
		}
		w.release(dir)
	}
}

// names yields the names of the directories on the path from the top directory to the one at path.
func (w *watches) names(path string) iter.Seq[string] {
	return strings.FieldsFuncSeq(strings.TrimPrefix(path, w.objects), func(c rune) bool { return c == filepath.Separator })
}

func (w *watches) close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	if w.notifier == nil {
		return nil
	}
	w.top.each(func(sub *subscription) {
		sub.dir = nil
		sub.end()
	})
	w.stop()
	return nil
}

// stop closes the notifier after the last subscription has ended.
func (w *watches) stop() {
	w.notifier.Close()
	w.notifier, w.top = nil, nil
}

func (w *watches) run(notifier *fsnotify.Watcher) {
	// While the notifier blocks to send an error, add may be waiting for the notifier. Errors are
	// therefore received by a goroutine that never blocks.
	failed := make(chan struct{}, 1)
	go func() {
		for range notifier.Errors {
			select {
			case failed <- struct{}{}:
			default:
			}
		}
	}()
	for {
		select {
		case event, ok := <-notifier.Events:
			if !ok {
				return
			}
			w.handle(notifier, event)
		case <-failed:
			w.lost(notifier)
		}
	}
}

func (w *watches) handle(notifier *fsnotify.Watcher, event fsnotify.Event) {
	name := filepath.Base(event.Name)
	isFile := strings.Contains(name, "@")
	if isFile && !strings.HasSuffix(name, metaSuffix) {
		return // a body file is written before the object changes
	}
	key := filepath.ToSlash(strings.TrimPrefix(strings.TrimPrefix(event.Name, w.objects), string(filepath.Separator)))
	if isFile {
		key = strings.TrimSuffix(key, metaSuffix)
	} else if key != "" {
		key += "/"
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.notifier != notifier {
		return
	}
	comesOrGoes := !isFile && event.Has(fsnotify.Create|fsnotify.Remove|fsnotify.Rename)
	dir, at := w.find(event.Name, comesOrGoes)
	changed := func(sub *subscription) { sub.changed(key) }
	if at && comesOrGoes {
		// The directory may have changed since the event: follow finds out whether it exists. If
		// follow fails, some notifications are lost; that is allowed, since they are only hints.
		_ = w.follow(dir)
	}
	// Notify after that, since objects may have been created before the directory was watched.
	if at && comesOrGoes {
		for _, child := range dir.children {
			child.each(changed)
		}
	}
	for ; dir != nil; dir = dir.parent {
		for sub := range dir.subs {
			changed(sub)
		}
	}
}

// lost handles the loss of notifications, after which anything may have changed.
func (w *watches) lost(notifier *fsnotify.Watcher) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.notifier != notifier {
		return
	}
	_ = w.follow(w.top)
	w.top.each(func(sub *subscription) { sub.changed("") })
}
