//go:build !unix

package pagecache

import (
	"errors"
	"fmt"
	"os"
	"runtime"
)

// lockNow returns an error: pages are dropped while they are read, which needs a
// system that can remove open files.
func lockNow(*os.File) error {
	return fmt.Errorf("%w: %s cannot remove files that are open: leave out the page cache", errors.ErrUnsupported, runtime.GOOS)
}
