//go:build unix

package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/feedctl/feedctl/internal/regular"
	"github.com/feedctl/feedctl/storage"
)

// Layout is the content of the file "version" in the stores that this package writes. A store in
// which the content is oldLayout can be read, and is upgraded by the first write.
const (
	Layout    = "feedctl file store 2\n"
	oldLayout = "feedctl file store 1\n"
)

const versionFile = "version"

// A version describes the version file of a store.
type version struct {
	mu   sync.Mutex
	old  bool        // the layout is oldLayout
	info fs.FileInfo // its modification time identifies the store
}

func (s *Store) versionPath() string { return filepath.Join(s.root, versionFile) }

// checkVersion reads the version file.
func (s *Store) checkVersion() (found bool, err error) {
	content, err := regular.ReadFile(s.versionPath())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	case string(content) != Layout && string(content) != oldLayout:
		return true, fmt.Errorf("%w: file %q holds %.60q, want %q; use the feedctl that wrote it",
			storage.ErrLayout, versionFile, content, Layout)
	}
	info, err := os.Stat(s.versionPath())
	if err != nil {
		return true, err
	}
	s.version.old, s.version.info = string(content) == oldLayout, info
	return true, nil
}

// present returns [storage.ErrNoStore] if the store that was opened has disappeared,
// probably because the disk is not mounted: the store must not seem to be empty. A store is
// identified by the modification time of its version file, which is unique and, unlike the device
// number, remains the same when the disk is mounted again, and in a copy that preserves times.
func (s *Store) present() error {
	// Errors are not wrapped, since the error for a missing store must not match fs.ErrNotExist.
	info, err := os.Stat(s.versionPath())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: it is gone: %s; is the disk mounted?", storage.ErrNoStore, err.Error())
	case err != nil:
		return err
	case !s.isVersion(info):
		return s.replaced()
	}
	if _, err = os.Stat(s.inObjects("")); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: the directory of its objects is gone: %s", storage.ErrLayout, err.Error())
	}
	return err
}

// replaced returns the error for a version file that belongs to another store.
func (s *Store) replaced() error {
	return fmt.Errorf("%w: %s was replaced by another store since it was opened; restart to use it", storage.ErrNoStore, s.root)
}

// isVersion reports whether info describes the version file that was read when the store was
// opened. If the store had the old layout, another process may have upgraded it since.
func (s *Store) isVersion(info fs.FileInfo) bool {
	v := &s.version
	v.mu.Lock()
	defer v.mu.Unlock()
	if info.ModTime().Equal(v.info.ModTime()) {
		return true
	}
	if !v.old || !os.SameFile(info, v.info) {
		return false
	}
	content, err := regular.ReadFile(s.versionPath())
	if err != nil || string(content) != Layout {
		return false
	}
	v.old, v.info = false, info
	return true
}

// upgrade turns a store of layout 1 into one of layout 2, durably, so that programs that know only
// layout 1 refuse it. Programs that are already running notice the new modification time.
func (s *Store) upgrade() error {
	v := &s.version
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.old {
		return nil
	}
	info, err := s.rewriteVersion()
	if err != nil {
		return fmt.Errorf("upgrade the store to layout 2: %w", refusal(err))
	}
	v.old, v.info = false, info
	return nil
}

// rewriteVersion changes the layout in the version file, which differs in one byte, unless another
// process has done so.
func (s *Store) rewriteVersion() (fs.FileInfo, error) {
	f, err := regular.Open(s.versionPath(), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close() // releases the lock
	if err := flock(f, unix.LOCK_EX); err != nil {
		return nil, os.NewSyscallError("flock", err)
	}
	info, err := f.Stat()
	if err == nil && !os.SameFile(info, s.version.info) {
		err = s.replaced()
	}
	if err != nil {
		return nil, err
	}
	content := make([]byte, len(Layout))
	if _, err := f.ReadAt(content, 0); err != nil {
		return nil, err
	}
	if string(content) != Layout {
		if _, err := f.WriteAt([]byte(Layout), 0); err != nil {
			return nil, err
		}
	}
	if err := f.Sync(); err != nil {
		return nil, err
	}
	return f.Stat()
}

func (s *Store) writeVersion() error {
	f, err := s.createTemp("version")
	if err != nil {
		return err
	}
	defer f.remove()
	if _, err := f.WriteString(Layout); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Link(f.Name(), s.versionPath()); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(s.root)
}
