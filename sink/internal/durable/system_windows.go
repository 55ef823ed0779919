package durable

import (
	"errors"
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/windows"
)

// NoFollow is 0: creating a symbolic link needs a privilege on Windows.
const NoFollow = 0

// errWouldBlock is matched by the error of lock if another open file has the lock.
var errWouldBlock error = windows.ERROR_LOCK_VIOLATION

// lock locks one byte far beyond the end, because on Windows others cannot read locked bytes.
func lock(f *os.File) error {
	const how = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	return windows.LockFileEx(windows.Handle(f.Fd()), how, 0, 1, 0, lockedByte())
}

func unlock(f *os.File) error {
	return windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, lockedByte())
}

func lockedByte() *windows.Overlapped { return &windows.Overlapped{OffsetHigh: math.MaxInt32} }

// CheckDirs returns an error: Windows cannot make names in directories durable.
func CheckDirs() error {
	return fmt.Errorf("%w: Windows cannot make names in directories durable: use sqlite:, postgres: or couchdb:", errors.ErrUnsupported)
}

func syncDir(string) error { return CheckDirs() }
