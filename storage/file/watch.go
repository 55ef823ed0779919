//go:build unix

package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"

	"github.com/feedctl/feedctl/storage"
)

// Watch implements [storage.Watcher] with file system notifications. It returns an
// error if they are unsupported or exhausted; the caller must then poll. Changes made
// by other machines are not seen. Close also closes the channel.
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

// WatchKeys implements [storage.KeyWatcher], with the errors of [Store.Watch].
func (s *Store) WatchKeys(ctx context.Context, prefix string, changed func(key string)) error {
	return s.watch(ctx, prefix, changed, func() {})
}

func (s *Store) watch(ctx context.Context, prefix string, changed func(key string), end func()) error {
	err := storage.CheckPrefix(prefix)
	if err == nil && !strings.HasSuffix(prefix, "/") {
		err = fmt.Errorf("%w: prefix does not end in \"/\"", storage.ErrKey)
	}
	sub := &subscription{dir: s.inObjects(prefix), changed: changed, end: end}
	if err == nil {
		err = s.watches.add(sub)
	}
	if err != nil {
		return fmt.Errorf("watch %q: %w", prefix, err)
	}
	context.AfterFunc(ctx, func() { s.watches.remove(sub) })
	return nil
}

// watches holds the subscriptions of a store, which share one notifier, since their
// number is limited per user.
//
// For each subscription it watches the directories above the directory of the prefix,
// that directory, and those below. Any of them may come and go.
type watches struct {
	objects string // the top directory

	mu       sync.Mutex
	closed   bool
	notifier *fsnotify.Watcher // nil if there are no subscriptions
	subs     map[*subscription]struct{}
}

type subscription struct {
	dir     string
	changed func(key string) // "" stands for any
	end     func()
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
		w.subs = make(map[*subscription]struct{})
		go w.run(notifier)
	}
	known := w.hasDir(sub.dir)
	w.subs[sub] = struct{}{}
	if !known {
		if err := w.follow(w.objects, sub.dir); err != nil {
			w.drop(sub)
			return err
		}
	}
	return nil
}

func (w *watches) hasDir(dir string) bool {
	for sub := range w.subs {
		if sub.dir == dir {
			return true
		}
	}
	return false
}

func (w *watches) remove(sub *subscription) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drop(sub)
}

// drop ends a subscription and stops watching directories that no other one needs.
func (w *watches) drop(sub *subscription) {
	if _, ok := w.subs[sub]; !ok {
		return
	}
	delete(w.subs, sub)
	sub.end()
	if len(w.subs) == 0 {
		w.notifier.Close()
		w.notifier = nil
		return
	}
	if w.hasDir(sub.dir) {
		return
	}
	for _, path := range w.notifier.WatchList() {
		if !w.needs(path) {
			// This fails only if the directory, and so the watch, is gone.
			_ = w.notifier.Remove(path)
		}
	}
}

func (w *watches) needs(path string) bool {
	for sub := range w.subs {
		if within(path, sub.dir) || within(sub.dir, path) {
			return true
		}
	}
	return false
}

func (w *watches) close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	for sub := range w.subs {
		w.drop(sub)
	}
	return nil
}

func (w *watches) run(notifier *fsnotify.Watcher) {
	// The notifier may block while sending an error, with add waiting for it. Errors
	// are therefore received by a goroutine that never blocks.
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
		return // bodies are written before the object changes
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
	for sub := range w.subs {
		below := within(event.Name, sub.dir)
		if !isFile && event.Has(fsnotify.Create) && (below || within(sub.dir, event.Name)) {
			// If this fails, some notifications are missing; they are only hints.
			_ = w.follow(event.Name, sub.dir)
			sub.changed(key) // objects may have been created before the watch
		} else if below {
			sub.changed(key)
		}
	}
}

// lost handles lost notifications: anything may have changed.
func (w *watches) lost(notifier *fsnotify.Watcher) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.notifier != notifier {
		return
	}
	for sub := range w.subs {
		_ = w.follow(w.objects, sub.dir)
		sub.changed("")
	}
}

// follow watches path and the existing directories between it and dir, or, if path is
// within dir, path and the directories below it.
func (w *watches) follow(path, dir string) error {
	for !within(path, dir) {
		if err := w.notifier.Add(path); errors.Is(err, fs.ErrNotExist) {
			return nil
		} else if err != nil {
			return err
		}
		next, _, _ := strings.Cut(dir[len(path)+1:], string(filepath.Separator))
		path = filepath.Join(path, next)
	}
	return w.addTree(path)
}

// addTree watches path and the directories below. It adds the watch before it reads
// the directory, so that a new directory is seen twice rather than never.
func (w *watches) addTree(path string) error {
	if err := w.notifier.Add(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	var stat unix.Stat_t
	if unix.Stat(path, &stat) == nil && stat.Nlink == 2 {
		// Two links, its name and ".", mean that it has no subdirectories. This
		// saves reading a directory of a million objects.
		return nil
	}
	return eachName(path, func(name string) error {
		if strings.Contains(name, "@") {
			return nil
		}
		return w.addTree(filepath.Join(path, name))
	})
}

// within reports whether path is dir or below it.
func within(path, dir string) bool {
	rest, ok := strings.CutPrefix(path, dir)
	return ok && (rest == "" || rest[0] == filepath.Separator)
}
