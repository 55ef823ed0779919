//go:build unix

package file

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/feedctl/feedctl/storage"
)

// listBatch is the number of names of a directory that are held and sorted in memory at a time. A
// directory with more names is read again for each batch.
const listBatch = 32 << 10

// List implements [storage.Store]. It reads only the metadata of the objects that it
// yields.
func (s *Store) List(ctx context.Context, prefix, after string) iter.Seq2[storage.Entry, error] {
	return func(yield func(storage.Entry, error) bool) {
		if err := storage.CheckPrefix(prefix); err != nil {
			yield(storage.Entry{}, fmt.Errorf("list: %w", err))
			return
		}
		slash := strings.LastIndexByte(prefix, '/') + 1
		l := &lister{store: s, ctx: ctx, prefix: prefix, after: after, yield: yield}
		if _, err := l.walk(prefix[:slash]); err != nil {
			yield(storage.Entry{}, fmt.Errorf("list %q: %w", prefix, err))
		}
	}
}

// Names implements [storage.Namer]. It reads only the directory of the prefix.
func (s *Store) Names(ctx context.Context, prefix, after string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if err := storage.CheckNames(prefix); err != nil {
			yield("", fmt.Errorf("list names: %w", err))
			return
		}
		l := &lister{store: s, ctx: ctx, prefix: prefix, after: storage.AfterName(prefix, after)}
		if err := l.names(yield); err != nil {
			yield("", fmt.Errorf("list names below %q: %w", prefix, err))
		}
	}
}

type lister struct {
	store  *Store
	ctx    context.Context
	prefix string
	after  string
	yield  func(storage.Entry, error) bool
	parts  bool // also yield keys without a metadata file but with other files, and read no metadata
}

// names yields the names of the directories in the directory of the prefix.
func (l *lister) names(yield func(string, error) bool) error {
	last := ""
	for {
		if err := l.ctx.Err(); err != nil {
			return err
		}
		batch, err := l.batch(l.prefix, last)
		if err != nil {
			return err
		}
		for _, entry := range batch {
			if name, ok := strings.CutSuffix(entry, "/"); ok && !yield(name, nil) {
				return nil
			}
		}
		if len(batch) < listBatch {
			return nil
		}
		last = batch[len(batch)-1]
	}
}

// walk yields the objects below dir, which is empty or ends in "/". It returns
// false if the iteration has been stopped.
func (l *lister) walk(dir string) (more bool, err error) {
	last := "" // the last name of the previous batch
	for {
		if err := l.ctx.Err(); err != nil {
			return false, err
		}
		names, err := l.batch(dir, last)
		if err != nil {
			return false, err
		}
		for _, name := range names {
			if strings.HasSuffix(name, "/") {
				more, err = l.walk(dir + name)
			} else {
				more, err = l.object(dir + name)
			}
			if !more || err != nil {
				return false, err
			}
		}
		if len(names) < listBatch {
			return true, nil
		}
		last = names[len(names)-1]
	}
}

// object yields one object, unless it has been deleted.
func (l *lister) object(key string) (more bool, err error) {
	if l.parts {
		return l.yield(storage.Entry{Key: key}, nil), nil
	}
	st, err := l.store.stat(l.ctx, key)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return true, nil
	case err != nil:
		return false, err
	}
	return l.yield(storage.Entry{Key: key, Size: st.Size, Modified: st.Modified}, nil), nil
}

// batch returns the first names in dir that come after last and may be, or
// contain, objects to be listed. Directories end in "/", so the names sort like the keys below
// them: "a-b", "a/", "a0".
func (l *lister) batch(dir, last string) ([]string, error) {
	var names []string
	limited := false // names is full: any name after its last one is left to the next batch
	cut := func() {
		slices.Sort(names)
		names = slices.Compact(names)
		if len(names) > listBatch {
			clear(names[listBatch:])
			names, limited = names[:listBatch], true
		}
	}
	err := eachName(l.store.inObjects(dir), func(name string) error {
		segment, suffix, isFile := strings.Cut(name, "@")
		switch {
		case !isFile:
			name += "/"
		case suffix == "meta", l.parts:
			name = segment
		default:
			return nil
		}
		if name <= last || limited && name > names[listBatch-1] || !l.wants(dir+name) {
			return nil
		}
		names = append(names, name)
		if len(names) == 2*listBatch {
			cut()
		}
		return nil
	})
	cut()
	if err == nil && (dir == "" || len(names) == 0) { // a store that is gone must not seem to be empty
		err = l.store.present()
	}
	return names, err
}

// wants reports whether key is to be listed or, if key ends in "/", whether any key below it may
// be.
func (l *lister) wants(key string) bool {
	if strings.HasSuffix(key, "/") {
		return storage.CheckPrefix(key) == nil &&
			(strings.HasPrefix(key, l.prefix) || strings.HasPrefix(l.prefix, key)) &&
			(key > l.after || strings.HasPrefix(l.after, key))
	}
	return storage.CheckKey(key) == nil && strings.HasPrefix(key, l.prefix) && key > l.after
}
