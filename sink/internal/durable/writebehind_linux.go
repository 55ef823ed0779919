package durable

import (
	"os"

	"golang.org/x/sys/unix"
)

// startWriting makes the system start to write the buffered bytes of a file to the disk, without waiting for
// the end. An error is left for Sync to find.
func startWriting(f *os.File) {
	_ = unix.SyncFileRange(int(f.Fd()), 0, 0, unix.SYNC_FILE_RANGE_WRITE)
}
