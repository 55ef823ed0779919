//go:build unix

package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/feedctl/feedctl/storage"
)

// copySize is the size, in bytes, of the buffer with which bodies are copied.
const copySize = 256 << 10

// A newFile is a file that no committed state names yet. It is locked while it is open, so that
// [Store.Sweep] can distinguish it from a file left by a killed writer.
type newFile struct {
	*os.File
	created time.Time // by the file system's clock
}

func createFile(path string) (*newFile, error) {
	for {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if err != nil {
			return nil, err
		}
		if err := flock(f, unix.LOCK_SH); err != nil {
			f.Close()
			os.Remove(path)
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		var stat unix.Stat_t
		if err := unix.Fstat(int(f.Fd()), &stat); err != nil {
			f.Close()
			os.Remove(path)
			return nil, fmt.Errorf("stat %s: %w", path, err)
		}
		if stat.Nlink > 0 {
			return &newFile{File: f, created: time.Unix(stat.Mtim.Unix()).UTC()}, nil
		}
		// A sweep has removed the file before it was locked.
		f.Close()
	}
}

func (s *Store) createTemp(purpose string) (*newFile, error) {
	return createFile(filepath.Join(s.root, tmpDir, purpose+"@"+newID()))
}

// remove closes the file and removes its name, if it still has one. If the name cannot be removed,
// a sweep will remove it.
func (f *newFile) remove() {
	os.Remove(f.Name())
	f.Close()
}

// createBody writes body to a new body file of key. The returned file is open, and therefore
// locked, but not yet synced. The caller closes or abandons it.
func (s *Store) createBody(ctx context.Context, key string, body storage.Body) (*newFile, string, error) {
	id := newID()
	f, err := s.createInDirs(ctx, s.bodyPath(key, id), key)
	if err != nil {
		s.removeEmptyDirs(key)
		return nil, "", refusal(err)
	}
	if err := s.copyBody(ctx, f, body); err != nil {
		s.abandon(key, f)
		return nil, "", err
	}
	return f, id, nil
}

// createInDirs creates a file and the directories for key that do not exist.
func (s *Store) createInDirs(ctx context.Context, path, key string) (*newFile, error) {
	for {
		f, err := createFile(path)
		if !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
		// A Delete may remove the directory until the file exists in it.
		if err := s.makeDirs(key); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
}

// abandon removes an unused body file and any directories created for it.
func (s *Store) abandon(key string, f *newFile) {
	f.remove()
	s.removeEmptyDirs(key)
}

// copyBody writes body to w. It stops between reads if ctx ends.
func (s *Store) copyBody(ctx context.Context, w io.Writer, body storage.Body) error {
	r, err := storage.OpenExact(body)
	if err != nil {
		return err
	}
	buffer := s.buffers.Get().(*[copySize]byte)
	defer s.buffers.Put(buffer)
	filled := 0
	for end := false; !end; {
		if err := ctx.Err(); err != nil {
			r.Close()
			return err
		}
		n, err := r.Read(buffer[filled:])
		filled += n
		if err != nil && err != io.EOF {
			r.Close()
			return err
		}
		end = err == io.EOF
		if filled < copySize && !end {
			continue
		}
		if _, err := w.Write(buffer[:filled]); err != nil {
			r.Close()
			return refusal(err)
		}
		filled = 0
	}
	if err := r.Close(); err != nil {
		return fmt.Errorf("close body: %w", err)
	}
	return nil
}

// makeDirs creates the directories that hold key, except the top one.
func (s *Store) makeDirs(key string) error {
	if err := s.present(); err != nil {
		return err
	}
	for i := range len(key) {
		if key[i] != '/' {
			continue
		}
		if err := os.Mkdir(s.inObjects(key[:i]), 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// removeEmptyDirs removes the directories that hold key, from the lowest up to the
// first that is not empty.
func (s *Store) removeEmptyDirs(key string) {
	for dir := dirOf(key); dir != ""; dir = dirOf(dir) {
		if os.Remove(s.inObjects(dir)) != nil {
			return
		}
	}
}

// syncDirsAbove makes the directory that holds key durable by syncing each directory
// above it. Existing directories are synced, too, since another process may have just created them.
func (s *Store) syncDirsAbove(key string) error {
	dir := dirOf(key)
	for dir != "" {
		dir = dirOf(dir)
		if err := syncDir(s.inObjects(dir)); err != nil {
			return err
		}
	}
	return nil
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// eachName calls do with each name in a directory, unordered, until do returns an
// error. It reads a thousand names at a time. It returns nil if the directory does not exist,
// disappears meanwhile, or is not a directory.
func eachName(path string, do func(name string) error) error {
	d, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return nil
	} else if err != nil {
		return refusal(err)
	}
	defer d.Close()
	for {
		names, err := d.Readdirnames(1000)
		for _, name := range names {
			if err := do(name); err != nil {
				return err
			}
		}
		switch {
		case err == io.EOF, errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		}
	}
}
