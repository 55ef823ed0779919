//go:build unix

package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/feedctl/feedctl/storage"
)

// Sweep implements [storage.Sweeper]. It removes temporary files, body files that no
// metadata names, and bytes after the end of a body, if the last write to the file is at least as
// old as age and no writer has the file open. It reads the names of all files of the store.
func (s *Store) Sweep(ctx context.Context, age time.Duration) (freed int64, err error) {
	now, err := s.Now(ctx)
	if err != nil {
		return 0, fmt.Errorf("sweep: %w", err)
	}
	w := &sweeper{store: s, ctx: ctx, before: now.Add(-age)}
	err = w.eachName(filepath.Join(s.root, tmpDir), func(name string) error {
		return w.remove(filepath.Join(s.root, tmpDir, name), nil)
	})
	if err == nil {
		err = w.walk("")
	}
	if err != nil {
		return w.freed, fmt.Errorf("sweep: %w", refusal(err))
	}
	return w.freed, nil
}

type sweeper struct {
	store  *Store
	ctx    context.Context
	before time.Time
	freed  int64
}

// walk sweeps the directory of a prefix, which is empty or ends in "/".
func (w *sweeper) walk(prefix string) error {
	return w.eachName(w.store.inObjects(prefix), func(name string) error {
		segment, suffix, isFile := strings.Cut(name, "@")
		switch {
		case !isFile:
			return w.walk(prefix + name + "/")
		case isID(suffix):
			return w.body(prefix+segment, suffix)
		case "@"+suffix == spareSuffix:
			return w.spare(prefix + segment)
		}
		return nil
	})
}

// eachName is like the function eachName but stops when the context ends.
func (w *sweeper) eachName(dir string, do func(name string) error) error {
	return eachName(dir, func(name string) error {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		return do(name)
	})
}

// body removes the body file id of key or, if the object uses the file, the bytes after the end of
// the body.
func (w *sweeper) body(key, id string) error {
	s := w.store
	unlock, err := s.locks.lock(w.ctx, key)
	if err != nil {
		return err
	}
	defer unlock()
	err = w.remove(s.bodyPath(key, id), func() (int64, error) { return s.used(key, id) })
	s.removeEmptyDirs(key)
	return err
}

// spare removes the spare file of a key, left from layout 1.
func (w *sweeper) spare(key string) error {
	s := w.store
	unlock, err := s.locks.lock(w.ctx, key)
	if err != nil {
		return err
	}
	defer unlock()
	err = w.remove(s.inObjects(key)+spareSuffix, nil)
	s.removeEmptyDirs(key)
	return err
}

// used returns how many bytes of the body file id of key are used, or -1 if the metadata does
// not name the file. If the metadata is damaged, it may have named any file, so all bytes of the
// file count as used.
func (s *Store) used(key, id string) (int64, error) {
	st, err := s.readState(key)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return -1, nil
	case errors.Is(err, storage.ErrLayout):
		return math.MaxInt64, nil
	case err != nil:
		return 0, err
	case st.Body != id:
		return -1, nil
	}
	return st.Size, nil
}

// remove removes a file if it is old enough and no writer has it open. If used, which may be nil,
// returns a size, remove truncates the file to that size instead. Until the lock is acquired, the
// writer may still link or rename the file, or the metadata that names it, so used is called only
// after that.
func (w *sweeper) remove(path string, used func() (int64, error)) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	defer f.Close()
	if err := flock(f, unix.LOCK_EX|unix.LOCK_NB); err == unix.EWOULDBLOCK {
		return nil
	} else if err != nil {
		return fmt.Errorf("lock %s: %w", path, err)
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.ModTime().After(w.before) {
		return nil
	}
	keep := int64(-1)
	if used != nil {
		if keep, err = used(); err != nil {
			return err
		}
	}
	if keep < 0 {
		err = os.Remove(path)
	} else if keep < info.Size() {
		err = os.Truncate(path, keep)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	w.freed += max(0, info.Size()-max(0, keep))
	return nil
}
