//go:build unix

package file

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/feedctl/feedctl/storage"
)

// refusal makes err match [storage.ErrFull], [storage.ErrPermission] or [storage.ErrExists] if the
// system's error means one of these. It must not be used after a link or rename has taken effect:
// these errors guarantee that nothing changed.
func refusal(err error) error {
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return fmt.Errorf("%w: %w", storage.ErrFull, err)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, unix.EROFS):
		return fmt.Errorf("%w: %w", storage.ErrPermission, err)
	case errors.Is(err, fs.ErrExist):
		return fmt.Errorf("%w: %w", storage.ErrExists, err)
	}
	return err
}

// refused reports whether a link or rename that returned err is certain not to have
// taken effect. After an I/O error, the outcome is unknown.
func refused(err error) bool {
	return errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) ||
		errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) ||
		errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) ||
		errors.Is(err, unix.EINVAL) || errors.Is(err, errors.ErrUnsupported)
}
