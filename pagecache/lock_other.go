//go:build !unix

package pagecache

import (
	"errors"
	"fmt"
	"os"
	"runtime"
)

// lockNow returns an error: the cache requires a system that can remove open files.
func lockNow(*os.File) error {
	return fmt.Errorf("%w: %s cannot remove open files: run without the page cache", errors.ErrUnsupported, runtime.GOOS)
}
