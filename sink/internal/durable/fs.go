// Package durable provides file operations for data that must survive a crash.
package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/feedctl/feedctl/internal/regular"
	"github.com/feedctl/feedctl/sink"
)

// An FS performs file operations. Its zero value is ready for use.
type FS struct {
	// Before, if set, is called before each operation that changes the disk or
	// makes a change durable. If it returns an error, the operation is not
	// done. Tests use it to simulate a crash or a full disk at any step.
	Before func(op, path string) error
}

func (f FS) before(op, path string) error {
	if f.Before == nil {
		return nil
	}
	return f.Before(op, path)
}

// writeBehind is how many bytes are written to a file before the system is asked to write
// them to the disk: enough for large requests to the disk, few enough that the disk is never
// idle.
const writeBehind = 1 << 20

// A File is a file opened for writing.
type File struct {
	*os.File
	fs     FS
	locked bool
	behind int // bytes written since the system was last asked to write them to the disk
}

// Open opens a file for reading and writing, and creates it if flag has
// [os.O_CREATE].
func (f FS) Open(path string, flag int) (*File, error) {
	if err := f.before("open", path); err != nil {
		return nil, err
	}
	file, err := regular.Open(path, os.O_RDWR|flag, 0o666)
	if err != nil {
		return nil, err
	}
	return &File{File: file, fs: f}, nil
}

// Write writes at the file's offset. While the caller prepares more, the system writes earlier bytes to the
// disk, so that Sync need not wait for all of them.
func (f *File) Write(b []byte) (int, error) {
	if err := f.fs.before("write", f.Name()); err != nil {
		return 0, err
	}
	n, err := f.File.Write(b)
	if f.behind += n; f.behind >= writeBehind {
		startWriting(f.File)
		f.behind = 0
	}
	return n, err
}

// Truncate truncates the file.
func (f *File) Truncate(size int64) error {
	if err := f.fs.before("truncate", f.Name()); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

// Sync makes the file's content durable.
func (f *File) Sync() error {
	if err := f.fs.before("sync", f.Name()); err != nil {
		return err
	}
	return f.File.Sync()
}

// Lock takes an exclusive lock on the file, until it is closed or its process ends.
// It returns [sink.ErrLocked] if another open file has the lock.
func (f *File) Lock() error {
	err := lock(f.File)
	if errors.Is(err, errWouldBlock) {
		return sink.ErrLocked
	}
	if err != nil {
		return fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	f.locked = true
	return nil
}

// Close closes the file. It releases the lock first, because a child process that is
// being started has the file open for a moment, too.
func (f *File) Close() error {
	var err error
	if f.locked {
		err = unlock(f.File)
	}
	return errors.Join(err, f.File.Close())
}

// Mkdir creates a directory if it does not exist. Its parent must exist.
func (f FS) Mkdir(path string) error {
	if err := f.before("mkdir", path); err != nil {
		return err
	}
	if err := os.Mkdir(path, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// Rename renames a file, replacing another.
func (f FS) Rename(from, to string) error {
	if err := f.before("rename", to); err != nil {
		return err
	}
	return os.Rename(from, to)
}

// Remove removes a file if it exists.
func (f FS) Remove(path string) error {
	if err := f.before("remove", path); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// RemoveAll removes a directory and its contents if it exists.
func (f FS) RemoveAll(path string) error {
	if err := f.before("remove all", path); err != nil {
		return err
	}
	return os.RemoveAll(path)
}

// SyncDir makes the names in a directory durable.
func (f FS) SyncDir(path string) error {
	if err := f.before("sync directory", path); err != nil {
		return err
	}
	return syncDir(path)
}

// SyncTree makes a directory of many files and their contents durable.
func (f FS) SyncTree(path string) error {
	if err := f.before("sync tree", path); err != nil {
		return err
	}
	return syncTree(path)
}

// WriteFile replaces a file atomically: after a crash it has either the old or the new content. Once
// WriteFile has returned nil, it has the new content.
func (f FS) WriteFile(path string, data []byte) error {
	temp, err := f.Open(path+".new", os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	defer temp.Close()
	if _, err := temp.Write(data); err != nil {
		return err
	}
	if err := temp.Sync(); err != nil {
		return err
	}
	if err := f.Rename(temp.Name(), path); err != nil {
		return err
	}
	return f.SyncDir(filepath.Dir(path))
}
