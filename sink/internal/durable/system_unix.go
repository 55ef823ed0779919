//go:build unix

package durable

import (
	"os"

	"golang.org/x/sys/unix"
)

// NoFollow is the flag of [FS.Open] that refuses a symbolic link.
const NoFollow = unix.O_NOFOLLOW

// errWouldBlock is matched by the error of lock if another open file has the lock.
var errWouldBlock error = unix.EWOULDBLOCK

func lock(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }

func unlock(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_UN) }

// CheckDirs returns an error if this system cannot make names in directories durable.
func CheckDirs() error { return nil }

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}
