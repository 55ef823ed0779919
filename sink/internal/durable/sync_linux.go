package durable

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// syncTree syncs the whole file system: for a thousand small files that is many
// times faster than each on its own. Since Linux 5.8 it reports write errors.
func syncTree(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := unix.Syncfs(int(dir.Fd())); err != nil {
		return fmt.Errorf("sync file system of %s: %w", path, err)
	}
	return nil
}
