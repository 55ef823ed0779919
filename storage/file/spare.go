//go:build unix

package file

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/feedctl/feedctl/storage"
)

// spareSuffix is the suffix of a key's spare file, which holds an earlier state.
const spareSuffix = "@spare"

func (s *Store) sparePath(key string) string { return s.inObjects(key) + spareSuffix }

// commitAppend is commit for an append. It writes st to the spare file of the key and
// exchanges that for the metadata file. Creating and removing a file for every state
// would be far slower, since file systems are slow to reuse inodes. The body and the
// spare file are synced concurrently. The caller has locked the key, whose state is
// old.
func (s *Store) commitAppend(ctx context.Context, key string, old *state, st state, body *os.File) (final bool, err error) {
	if err := ctx.Err(); err != nil {
		return true, err
	}
	// The previous exchange may not be durable yet. Then the file that is now the spare
	// one would be the metadata file after a crash, and must not be overwritten.
	if !s.synced.is(key, old.Version) {
		if err := syncDir(s.inObjects(dirOf(key))); err != nil {
			return true, refusal(err)
		}
	}
	spare, removeSpare, err := s.writeSpare(key, st)
	if err != nil {
		return true, refusal(err)
	}
	defer spare.Close()
	if err := together(body.Sync, spare.Sync); err != nil {
		removeSpare()
		return true, refusal(err)
	}
	supported := true
	final, err = s.publish(key, func() error {
		err := exchange(s.sparePath(key), s.metaPath(key))
		supported = !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, unix.EINVAL)
		return err
	}, removeSpare)
	if !supported {
		os.Remove(s.sparePath(key))
		return s.commit(ctx, key, st, os.Rename) // the body has been synced
	}
	if err == nil {
		s.synced.set(key, st.Version)
	}
	return final, err
}

// synced holds for some keys the last version that this process wrote, whose metadata
// file is known to be durable under its name.
type synced struct {
	mu       sync.Mutex
	versions map[string]storage.Version
}

// maxSynced limits the number of keys in synced. It exceeds the number of feeds that a
// process usually writes to.
const maxSynced = 1024

func (s *synced) is(key string, v storage.Version) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.versions[key] == v
}

func (s *synced) set(key string, v storage.Version) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.versions == nil || len(s.versions) >= maxSynced {
		s.versions = make(map[string]storage.Version)
	}
	s.versions[key] = v
}

// writeSpare writes st to the spare file of key. The returned function removes that
// file if it was created here.
func (s *Store) writeSpare(key string, st state) (f *os.File, remove func(), err error) {
	remove = func() {}
	path := s.sparePath(key)
	f, err = os.OpenFile(path, os.O_WRONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		remove = func() { os.Remove(path) }
	}
	if err != nil {
		return nil, nil, err
	}
	if err := overwriteState(f, st); err != nil {
		f.Close()
		remove()
		return nil, nil, err
	}
	return f, remove, nil
}

func overwriteState(f *os.File, st state) error {
	// Modified is by the clock of the file system.
	if err := unix.Futimes(int(f.Fd()), nil); err != nil {
		return os.NewSyscallError("futimes", err)
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	st.Modified = info.ModTime().UTC()
	data, err := st.encode()
	if err != nil {
		return err
	}
	if _, err := f.WriteAt(data, 0); err != nil {
		return err
	}
	return f.Truncate(int64(len(data)))
}
