//go:build unix

package file

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// A watchedDir is a directory that the notifier watches, or would watch if the directory existed.
// It is needed if there is a subscription to it, to a directory above it, or to one below it.
//
// The directories form a tree, so the cost of a subscription or an event depends only on the depth
// of its path and on the number of directories below it that change. The parent of a watched
// directory is watched, too.
type watchedDir struct {
	path     string
	parent   *watchedDir            // nil at the top
	children map[string]*watchedDir // by name
	subs     map[*subscription]struct{}
	below    int  // the number of subscriptions to this directory and those below
	watched  bool // by the notifier
}

// child returns the directory with the given name in d, and adds it to the tree if necessary.
func (d *watchedDir) child(name string) *watchedDir {
	child := d.children[name]
	if child == nil {
		child = &watchedDir{path: filepath.Join(d.path, name), parent: d}
		if d.children == nil {
			d.children = make(map[string]*watchedDir)
		}
		d.children[name] = child
	}
	return child
}

func (d *watchedDir) subscribe(sub *subscription) {
	if d.subs == nil {
		d.subs = make(map[*subscription]struct{})
	}
	d.subs[sub] = struct{}{}
	sub.dir = d
	for ; d != nil; d = d.parent {
		d.below++
	}
}

func (d *watchedDir) unsubscribe(sub *subscription) {
	delete(d.subs, sub)
	sub.dir = nil
	for ; d != nil; d = d.parent {
		d.below--
	}
}

// covered reports whether there is a subscription to d or to a directory above d, so all
// directories below d are needed.
func (d *watchedDir) covered() bool {
	for ; d != nil; d = d.parent {
		if len(d.subs) > 0 {
			return true
		}
	}
	return false
}

// each calls do with each subscription to d and to the directories below d.
func (d *watchedDir) each(do func(*subscription)) {
	if d.below == 0 {
		return
	}
	for sub := range d.subs {
		do(sub)
	}
	for _, child := range d.children {
		child.each(do)
	}
}

// prune removes d from the tree, and then the directories above d, as long as they are neither
// watched nor on the path of a subscription.
func (d *watchedDir) prune() {
	for d.parent != nil && d.below == 0 && !d.watched {
		delete(d.parent.children, filepath.Base(d.path))
		d = d.parent
	}
}

// find returns the directory at path and true or, if that is not in the tree, the nearest directory
// above it and false. If add is set and the directory at path is needed, find adds it to the tree.
func (w *watches) find(path string, add bool) (dir *watchedDir, at bool) {
	dir = w.top
	covered := len(dir.subs) > 0
	for name := range w.names(path) {
		if dir.children[name] == nil && !(add && covered) {
			return dir, false
		}
		dir = dir.child(name)
		covered = covered || len(dir.subs) > 0
	}
	return dir, true
}

// follow watches a directory and the needed directories below it, as far as they exist. It begins
// with the parent directories that are not watched yet.
func (w *watches) follow(dir *watchedDir) error {
	for dir.parent != nil && !dir.parent.watched {
		dir = dir.parent
	}
	return w.followTree(dir, dir.covered())
}

// followTree does the work of follow for dir and the directories below it. It watches each
// directory before it reads the directory, so a new subdirectory may be seen twice but is never
// missed.
func (w *watches) followTree(dir *watchedDir, covered bool) error {
	if err := w.notifier.Add(dir.path); err != nil {
		w.forget(dir)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	dir.watched = true
	covered = covered || len(dir.subs) > 0
	for _, child := range dir.children {
		if err := w.followTree(child, covered); err != nil {
			return err
		}
	}
	var stat unix.Stat_t
	if !covered || unix.Stat(dir.path, &stat) == nil && stat.Nlink == 2 {
		// A directory with only two links, its name and ".", has no subdirectories. This check
		// avoids reading a directory with a million objects.
		return nil
	}
	return eachName(dir.path, func(name string) error {
		if child := dir.children[name]; strings.Contains(name, "@") || child != nil && child.watched {
			return nil
		}
		return w.followTree(dir.child(name), true)
	})
}

// release stops watching dir and the directories below it, except those that a subscription needs.
// There must be no subscriptions to directories above dir.
func (w *watches) release(dir *watchedDir) {
	switch {
	case dir.below == 0:
		w.forget(dir)
	case len(dir.subs) == 0:
		for _, child := range dir.children {
			w.release(child)
		}
	}
}

// forget stops watching dir and the directories below it.
func (w *watches) forget(dir *watchedDir) {
	for _, child := range dir.children {
		w.forget(child)
	}
	if dir.watched {
		// This fails only if the directory, and the watch with it, is gone.
		_ = w.notifier.Remove(dir.path)
		dir.watched = false
	}
	dir.prune()
}
