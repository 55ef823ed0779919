package doctor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Directory examines the file system of a store in an existing directory. It creates
// and removes a file there.
func Directory(_ context.Context, dir string) []Finding {
	return []Finding{
		finding("file system", "acknowledged writes must survive a crash, and be visible to everyone immediately", checkFileSystem(dir)),
		finding("room", "a full disk stops publishing", checkRoom(dir)),
		finding("durability", "a commit syncs a file, or a file and its directory", checkDurability(dir)),
	}
}

// fileSystems holds the results for file systems that are unsuitable for a store, by magic number (statfs(2)).
var fileSystems = map[int64]result{
	unix.NFS_SUPER_MAGIC:       network("NFS"),
	unix.SMB_SUPER_MAGIC:       network("SMB"),
	unix.CIFS_SUPER_MAGIC:      network("CIFS"),
	unix.SMB2_SUPER_MAGIC:      network("SMB"),
	unix.FUSE_SUPER_MAGIC:      warning("it is a user-space file system (FUSE)", "check that it honours fsync, or use a local disk"),
	unix.V9FS_MAGIC:            warning("it is on another machine (9p)", "use a local disk"),
	unix.TMPFS_MAGIC:           warning("it is in memory (tmpfs)", "use a disk: its contents are lost on a restart"),
	unix.RAMFS_MAGIC:           warning("it is in memory (ramfs)", "use a disk: its contents are lost on a restart"),
	unix.OVERLAYFS_SUPER_MAGIC: warning("it is part of a container (overlayfs)", "use a volume: its contents are lost with the container"),
}

func network(name string) result {
	return problem("it is on a network file system ("+name+")", "use a local disk, or a store that several machines can use, such as s3://BUCKET/PREFIX")
}

func statfs(dir string) (unix.Statfs_t, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return fs, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return fs, nil
}

// Space returns how many bytes of a directory's file system are free for ordinary users, and how many there are in all.
// It is implemented on Linux only.
func Space(dir string) (free, all int64, err error) {
	fs, err := statfs(dir)
	if err != nil {
		return 0, 0, err
	}
	size := int64(fs.Bsize)                                      //nolint:unconvert // it is an int32 elsewhere
	return int64(fs.Bavail) * size, int64(fs.Blocks) * size, nil //nolint:gosec // no disk is that large
}

func checkFileSystem(dir string) result {
	fs, err := statfs(dir)
	if err != nil {
		return failed(err)
	}
	if r, ok := fileSystems[int64(fs.Type)]; ok { //nolint:unconvert // it is an int32 elsewhere
		return r
	}
	if fs.Flags&unix.ST_RDONLY != 0 {
		return warning("it is mounted read-only", "mount it read-write, unless you only read")
	}
	return fine("it is local")
}

// The free space that the disk of a store should have.
const (
	minFree        = 1 << 30
	minFreePercent = 5
)

func checkRoom(dir string) result {
	fs, err := statfs(dir)
	if err != nil {
		return failed(err)
	}
	size := uint64(fs.Bsize) //nolint:gosec // it is positive
	free, all := fs.Bavail*size, fs.Blocks*size
	found := fmt.Sprintf("%d MiB of %d MiB are free", free>>20, all>>20)
	if free < minFree || free*100 < all*minFreePercent {
		return warning(found, "free disk space, prune feeds or delete old snapshots")
	}
	if fs.Files > 0 && fs.Ffree*100 < fs.Files*minFreePercent {
		return warning(fmt.Sprintf("room for only %d more files", fs.Ffree), "free inodes: a page takes two files")
	}
	return fine(found)
}

// checkDurability performs the operations of a commit.
func checkDurability(dir string) (r result) {
	scratch, err := os.MkdirTemp(dir, "doctor-")
	if err != nil {
		return warning(err.Error(), "let this user write to the directory, unless you only read")
	}
	defer func() {
		if err := os.RemoveAll(scratch); err != nil {
			r = warning(err.Error(), "delete it by hand")
		}
	}()
	begun := time.Now()
	for _, name := range []string{filepath.Join(scratch, "file"), scratch} {
		if err := syncFile(name, name != scratch); err != nil {
			return problem(err.Error(), "use a file system that supports fsync")
		}
	}
	took := time.Since(begun) / 2
	return fine(fmt.Sprintf("fsync takes %v", took.Round(10*time.Microsecond)))
}

// syncFile syncs an existing directory or, with create, a new file.
func syncFile(name string, create bool) error {
	var f *os.File
	var err error
	if create {
		f, err = os.Create(name)
	} else {
		f, err = os.Open(name)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
