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

// Watch implements [storage.Watcher] by the file system's notifications. It
// fails where there are none, or no more of them; the caller must then look by
// himself. Changes by other machines are not seen. Close also closes the
// channel.
func (s *Store) Watch(ctx context.Context, prefix string) (<-chan struct{}, error) {
	err := storage.CheckPrefix(prefix)
	if err == nil && !strings.HasSuffix(prefix, "/") {
		err = fmt.Errorf("%w: prefix does not end in \"/\"", storage.ErrKey)
	}
	var sub *subscription
	if err == nil {
		sub, err = s.watches.add(s.inObjects(prefix))
	}
	if err != nil {
		return nil, fmt.Errorf("watch %q: %w", prefix, err)
	}
	context.AfterFunc(ctx, func() { s.watches.remove(sub) })
	return sub.changed, nil
}

// watches is what all watches of a store share: one source of notifications,
// since a user can have few of them.
//
// For each subscription it watches the directories that lead to the directory
// of its prefix, that directory, and those below. Any may come and go.
type watches struct {
	objects string // the top directory

	mu       sync.Mutex
	closed   bool
	notifier *fsnotify.Watcher // nil if there are no subscriptions
	subs     map[*subscription]struct{}
}

type subscription struct {
	dir     string
	changed chan struct{} // holds one value
}

func (sub *subscription) notify() {
	select {
	case sub.changed <- struct{}{}:
	default:
	}
}

func (w *watches) add(dir string) (*subscription, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, os.ErrClosed
	}
	if w.notifier == nil {
		notifier, err := fsnotify.NewWatcher()
		if err != nil {
			return nil, err
		}
		w.notifier = notifier
		w.subs = make(map[*subscription]struct{})
		go w.run(notifier)
	}
	known := w.hasDir(dir)
	sub := &subscription{dir: dir, changed: make(chan struct{}, 1)}
	w.subs[sub] = struct{}{}
	if !known {
		if err := w.follow(w.objects, dir); err != nil {
			w.drop(sub)
			return nil, err
		}
	}
	return sub, nil
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

// drop ends a subscription and stops watching what no other one needs.
func (w *watches) drop(sub *subscription) {
	if _, ok := w.subs[sub]; !ok {
		return
	}
	delete(w.subs, sub)
	close(sub.changed)
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
			// It fails only if the directory is gone, and the watch with it.
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
	// The notifier may block in sending an error while add waits for it. So
	// errors are taken by a goroutine that itself waits for nothing.
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
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.notifier != notifier {
		return
	}
	for sub := range w.subs {
		below := within(event.Name, sub.dir)
		if !isFile && event.Has(fsnotify.Create) && (below || within(sub.dir, event.Name)) {
			// If this fails, the watch is good for less. It is a hint.
			_ = w.follow(event.Name, sub.dir)
			sub.notify() // objects may have come before the watch
		} else if below {
			sub.notify()
		}
	}
}

// lost is called when notifications were lost: anything may have changed.
func (w *watches) lost(notifier *fsnotify.Watcher) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.notifier != notifier {
		return
	}
	for sub := range w.subs {
		_ = w.follow(w.objects, sub.dir)
		sub.notify()
	}
}

// follow watches path and what lies between it and dir, as far as it exists; or
// if path is in dir, what lies below it.
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

// addTree watches path and the directories below. First the watch, then the
// look: what comes in between is seen twice rather than never.
func (w *watches) addTree(path string) error {
	if err := w.notifier.Add(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	var stat unix.Stat_t
	if unix.Stat(path, &stat) == nil && stat.Nlink == 2 {
		// Its name and its "." are all links to it: there is no directory in it.
		// This saves reading a directory of a million objects.
		return nil
	}
	return eachName(path, func(name string) error {
		if strings.Contains(name, "@") {
			return nil
		}
		return w.addTree(filepath.Join(path, name))
	})
}

// within tells whether path is dir or below it.
func within(path, dir string) bool {
	rest, ok := strings.CutPrefix(path, dir)
	return ok && (rest == "" || rest[0] == filepath.Separator)
}
