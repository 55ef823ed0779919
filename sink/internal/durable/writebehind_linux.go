package durable

import (
	"os"

	"golang.org/x/sys/unix"
)

// startWriting makes the system write the bytes of a file that it holds in memory to the disk, without
// waiting for it. An error is left for Sync to find.
func startWriting(f *os.File) {
	_ = unix.SyncFileRange(int(f.Fd()), 0, 0, unix.SYNC_FILE_RANGE_WRITE)
}
