package file

import (
	"os"

	"golang.org/x/sys/unix"
)

// datasync makes the content of a file durable, together with the metadata that is needed to read
// the content.
func datasync(f *os.File) error {
	for {
		switch err := unix.Fdatasync(int(f.Fd())); err {
		case nil:
			return nil
		case unix.EINTR:
		default:
			return &os.PathError{Op: "fdatasync", Path: f.Name(), Err: err}
		}
	}
}
