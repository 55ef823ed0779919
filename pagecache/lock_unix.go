//go:build unix

package pagecache

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lockNow locks a file, or returns [ErrInUse] if the lock is held through
// another open file.
func lockNow(f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EWOULDBLOCK):
			return ErrInUse
		default:
			return err
		}
	}
}
