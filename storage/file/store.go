//go:build unix

package file

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/feedctl/feedctl/storage"
)

// Names of files and directories in the root of a store.
const (
	objectsDir = "objects"
	locksDir   = "locks"
	tmpDir     = "tmp"
)

// A Store is a directory. It implements [storage.Store], [storage.Watcher],
// [storage.Clock] and [storage.Sweeper].
type Store struct {
	root    string // absolute
	version version
	locks   *locks
	watches watches
	buffers sync.Pool // of *[copySize]byte
}

var (
	_ storage.Store   = (*Store)(nil)
	_ storage.Watcher = (*Store)(nil)
	_ storage.Clock   = (*Store)(nil)
	_ storage.Sweeper = (*Store)(nil)
	_ storage.Syncer  = (*Store)(nil)

	_ storage.Recoverer = (*Store)(nil)
)

// Open opens the store at a URL in the form described by [ParseURL]. It returns
// [storage.ErrNoStore] if there is no store, and creates nothing. It is a [storage.Opener].
func Open(_ context.Context, u *url.URL) (storage.Store, error) {
	dir, err := ParseURL(u)
	if err != nil {
		return nil, err
	}
	return newStore(dir, (*Store).open)
}

// Create is like [Open] but creates the store if it does not exist, as [New] does.
func Create(_ context.Context, u *url.URL) (storage.Store, error) {
	dir, err := ParseURL(u)
	if err != nil {
		return nil, err
	}
	return newStore(dir, (*Store).create)
}

// New opens the store in dir. If there is no store, it creates the directory and an empty store in
// it. It returns [storage.ErrLayout] if the directory holds a store of an unknown layout or
// something else.
func New(dir string) (*Store, error) {
	s, err := newStore(dir, (*Store).create)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", dir, err)
	}
	return s, nil
}

func newStore(dir string, open func(*Store) error) (*Store, error) {
	root, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	s := &Store{
		root:    root,
		locks:   newLocks(filepath.Join(root, locksDir)),
		buffers: sync.Pool{New: func() any { return new([copySize]byte) }},
	}
	s.watches.objects = s.inObjects("")
	if err := open(s); err != nil {
		return nil, refusal(err)
	}
	return s, nil
}

func (s *Store) open() error {
	found, err := s.checkVersion()
	if found && err == nil {
		s.restoreDirs()
	}
	if found || err != nil {
		return err
	}
	if _, err := os.Stat(s.root); err != nil {
		// The error is not wrapped, since the error for a missing store must not match
		// fs.ErrNotExist.
		return fmt.Errorf("%w: %s", storage.ErrNoStore, err.Error())
	}
	if err := s.checkUnused(); err != nil {
		return s.unlessCreated(err)
	}
	return fmt.Errorf("%w: the directory is empty; is the disk mounted?", storage.ErrNoStore)
}

// create is like open but creates the store if the directory is empty or does not exist.
func (s *Store) create() error {
	found, err := s.checkVersion()
	if found && err == nil {
		s.restoreDirs()
	}
	if found || err != nil {
		return err
	}
	if err := makeRoot(s.root); err != nil {
		return err
	}
	if err := s.checkUnused(); err != nil {
		return s.unlessCreated(err)
	}
	for _, name := range []string{objectsDir, locksDir, tmpDir} {
		if err := os.Mkdir(filepath.Join(s.root, name), 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	if err := syncDir(s.root); err != nil {
		return err
	}
	// The version file is linked last: if it exists, the store is complete.
	if err := s.writeVersion(); err != nil {
		return err
	}
	_, err = s.checkVersion()
	return err
}

// unlessCreated returns err, or nil if another process has created the store in the meantime.
func (s *Store) unlessCreated(err error) error {
	if found, verr := s.checkVersion(); found {
		return verr
	}
	return err
}

// restoreDirs creates the directories that a copy of a store may lack because they were
// empty. Errors are ignored: reading does not need the directories, and writing reports
// what is missing.
func (s *Store) restoreDirs() {
	for _, name := range []string{locksDir, tmpDir} {
		_ = os.Mkdir(filepath.Join(s.root, name), 0o777)
	}
}

// checkUnused returns an error if the root contains an object, or anything that is not
// part of an incompletely created store.
func (s *Store) checkUnused() error {
	entries, err := os.ReadDir(s.root)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		switch entry.Name() {
		case objectsDir, locksDir, tmpDir, "lost+found": // the root of a file system may contain "lost+found"
		default:
			return fmt.Errorf("%w: the directory has a file %q but no file %q; use an empty directory",
				storage.ErrLayout, entry.Name(), versionFile)
		}
	}
	objects, err := os.ReadDir(s.inObjects(""))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case len(objects) > 0:
		return fmt.Errorf("%w: there are objects but no file %q; restore it", storage.ErrLayout, versionFile)
	}
	return nil
}

// makeRoot creates dir and the directories above it, durably.
func makeRoot(dir string) error {
	err := os.Mkdir(dir, 0o777)
	if parent := filepath.Dir(dir); errors.Is(err, fs.ErrNotExist) && parent != dir {
		if err := makeRoot(parent); err != nil {
			return err
		}
		// If this Mkdir fails, too, the parent is a dangling link or cannot hold directories.
		err = os.Mkdir(dir, 0o777)
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil
	case err != nil:
		return err
	}
	return syncDir(filepath.Dir(dir))
}

// Close ends all watches. Objects that are open stay open.
func (s *Store) Close() error {
	s.locks.close()
	return s.watches.close()
}

// Now returns the time of the file system's clock, which also stamps
// [storage.Info.Modified]. The clock advances in steps of a few milliseconds.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	if err := ctx.Err(); err != nil {
		return time.Time{}, err
	}
	f, err := s.createTemp("now")
	if err != nil {
		return time.Time{}, fmt.Errorf("read clock of file system: %w", refusal(err))
	}
	defer f.remove()
	return f.created, nil
}

// inObjects returns the path of a key, or of the directory of a prefix.
func (s *Store) inObjects(key string) string {
	return filepath.Join(s.root, objectsDir, filepath.FromSlash(key))
}

// dirOf returns the path, below objects, of the directory that holds key: "" for the top.
func dirOf(key string) string {
	return key[:max(0, strings.LastIndexByte(key, '/'))]
}

// newID returns 26 random characters, 130 bits.
func newID() string { return rand.Text() }
