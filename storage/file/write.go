//go:build unix

package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sync/errgroup"

	"github.com/feedctl/feedctl/storage"
)

// Create implements [storage.Store]. It takes no lock: linking the metadata file to
// its name succeeds for one writer only.
func (s *Store) Create(ctx context.Context, key string, meta storage.Meta, body storage.Body) (storage.Version, error) {
	if err := checkWrite(ctx, key, meta); err != nil {
		return "", failed("create", key, err)
	}
	// This is only an optimization: link checks it reliably.
	if _, err := os.Lstat(s.metaPath(key)); err == nil {
		return "", failed("create", key, storage.ErrExists)
	}
	if err := s.upgrade(); err != nil {
		return "", failed("create", key, err)
	}
	f, id, err := s.createBody(ctx, key, body)
	if err != nil {
		return "", failed("create", key, err)
	}
	defer f.Close()
	st := newState(meta, id, body.Size())
	syncDirs := func() error { return s.syncDirsAbove(key) }
	if final, err := s.commit(ctx, key, st, storage.IsLast(body), link, f.Sync, syncDirs); err != nil {
		if final {
			s.abandon(key, f)
		}
		return "", failed("create", key, err)
	}
	return st.Version, nil
}

// Replace implements [storage.Store]. The body is read while the key is locked.
func (s *Store) Replace(ctx context.Context, key string, at storage.Version, meta storage.Meta, body storage.Body) (storage.Version, error) {
	if err := checkWrite(ctx, key, meta); err != nil {
		return "", failed("replace", key, err)
	}
	unlock, err := s.locks.lock(ctx, key)
	if err != nil {
		return "", failed("replace", key, err)
	}
	defer unlock()
	old, err := s.stateAt(key, at)
	if err != nil {
		return "", failed("replace", key, err)
	}
	if err := s.upgrade(); err != nil {
		return "", failed("replace", key, err)
	}
	f, id, err := s.createBody(ctx, key, body)
	if err != nil {
		return "", failed("replace", key, err)
	}
	defer f.Close()
	st := newState(meta, id, body.Size())
	if final, err := s.commit(ctx, key, st, storage.IsLast(body), os.Rename, f.Sync); err != nil {
		if final {
			s.abandon(key, f)
		}
		return "", failed("replace", key, err)
	}
	os.Remove(s.bodyPath(key, old.Body)) // if this fails, a sweep removes the file
	return st.Version, nil
}

// Delete implements [storage.Store]. It also deletes a damaged object.
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := checkWrite(ctx, key, storage.Meta{}); err != nil {
		return failed("delete", key, err)
	}
	unlock, err := s.locks.lock(ctx, key)
	if err != nil {
		return failed("delete", key, err)
	}
	defer unlock()
	st, err := s.readState(key)
	if err != nil && !errors.Is(err, storage.ErrNotFound) && !errors.Is(err, storage.ErrLayout) {
		return failed("delete", key, err)
	}
	if err := os.Remove(s.metaPath(key)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return failed("delete", key, refusal(err))
	}
	// Sync even if the object did not exist: a process that removed it may have been killed before
	// it synced.
	if err := s.syncNearestDir(key); err != nil {
		return failed("delete", key, err)
	}
	os.Remove(s.inObjects(key) + spareSuffix)
	if st != nil {
		os.Remove(s.bodyPath(key, st.Body))
		s.removeEmptyDirs(key)
	}
	return nil
}

// Sync implements [storage.Syncer]. If an append is in progress or has been interrupted,
// it waits for the writer, and completes the append.
func (s *Store) Sync(ctx context.Context, key string) error {
	err := checkWrite(ctx, key, storage.Meta{})
	if err == nil {
		err = s.sync(ctx, key)
	}
	if err != nil {
		return failed("sync", key, err)
	}
	return nil
}

func (s *Store) sync(ctx context.Context, key string) error {
	r, err := s.readRecord(key)
	if errors.Is(err, storage.ErrNotFound) || err == nil && (r.slotSize == 0 || r.agree()) {
		return refusal(s.syncNearestDir(key))
	} else if err != nil {
		return err
	}
	unlock, err := s.locks.lock(ctx, key)
	if err != nil {
		return err
	}
	defer unlock()
	a, err := s.openAppend(key)
	if errors.Is(err, storage.ErrNotFound) {
		return refusal(s.syncNearestDir(key))
	} else if err != nil {
		return err
	}
	defer a.close()
	return refusal(a.finish())
}

// syncNearestDir syncs the lowest directory above key that exists.
func (s *Store) syncNearestDir(key string) error {
	for dir := dirOf(key); ; dir = dirOf(dir) {
		err := syncDir(s.inObjects(dir))
		if dir == "" || !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
}

// commit writes st to a file, calls syncs concurrently with the sync of the file, and then calls
// name, which is link or os.Rename, to make the file the metadata file of key. If last is set, the
// file has no slots. If commit fails and final is true, the state is certain not to take effect. If
// final is false, the state may take effect, now or after a crash, and nothing must be cleaned up.
func (s *Store) commit(ctx context.Context, key string, st state, last bool, name func(from, to string) error, syncs ...func() error) (final bool, err error) {
	if err := ctx.Err(); err != nil {
		return true, err
	}
	f, err := s.createTemp("meta")
	if err != nil {
		return true, refusal(err)
	}
	defer f.Close() // releases the lock after the file has its final name
	err = writeState(f, st, last)
	if err == nil {
		err = together(f.Sync, syncs...)
	}
	if err != nil {
		os.Remove(f.Name())
		return true, refusal(err)
	}
	return s.publish(key, func() error { return name(f.Name(), s.metaPath(key)) }, func() { os.Remove(f.Name()) })
}

// publish calls name, which makes a state the current state of key, and syncs the directory. If
// name is certain to have had no effect, publish calls undo.
func (s *Store) publish(key string, name func() error, undo func()) (final bool, err error) {
	// The directory is opened first, so that nothing changes if no file descriptors are left.
	dir, err := os.Open(s.inObjects(dirOf(key)))
	if err != nil {
		undo()
		return true, refusal(err)
	}
	defer dir.Close()
	switch err := name(); {
	case err == nil:
	case refused(err):
		undo()
		return true, refusal(err)
	default:
		return false, fmt.Errorf("%w; read the object to find out whether it was written", err)
	}
	if err := dir.Sync(); err != nil {
		return false, fmt.Errorf("%w; the object is written but may be lost in a crash", err)
	}
	return true, nil
}

func writeState(f *newFile, st state, last bool) error {
	st.Modified = f.created
	data, err := st.encode()
	if err != nil {
		return err
	}
	if !last {
		data = inSlots(data)
	}
	_, err = f.Write(data)
	return err
}

// together makes calls concurrently, so that they wait for the disk at the same time.
func together(first func() error, more ...func() error) error {
	var group errgroup.Group
	for _, call := range more {
		group.Go(call)
	}
	return errors.Join(first(), group.Wait())
}

// link renames a file to a name that does not exist, or returns an error.
func link(from, to string) error {
	if err := os.Link(from, to); err != nil {
		return err
	}
	os.Remove(from) // if this fails, a sweep removes the file
	return nil
}

// stateAt returns the state of key, which the caller has locked. It returns [storage.ErrConflict]
// if the state does not have the given version.
func (s *Store) stateAt(key string, at storage.Version) (*state, error) {
	st, err := s.readState(key)
	if err == nil {
		err = expect(st.Version, at)
	} else {
		err = goneIsConflict(err)
	}
	return st, err
}

// goneIsConflict replaces [storage.ErrNotFound] with [storage.ErrConflict].
func goneIsConflict(err error) error {
	if errors.Is(err, storage.ErrNotFound) {
		return fmt.Errorf("%w: it is gone", storage.ErrConflict)
	}
	return err
}

func expect(is, want storage.Version) error {
	if is != want {
		return fmt.Errorf("%w: %s, want %s", storage.ErrConflict, is, want)
	}
	return nil
}

func checkWrite(ctx context.Context, key string, meta storage.Meta) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := storage.CheckKey(key); err != nil {
		return err
	}
	return storage.CheckMeta(meta)
}

func failed(verb, key string, err error) error {
	return fmt.Errorf("%s %s: %w", verb, key, err)
}
