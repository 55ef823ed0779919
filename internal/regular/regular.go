// Package regular opens and writes regular files.
package regular

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// ErrNotRegular is matched by the error of [Open] if the path is not a regular file.
var ErrNotRegular = errors.New("not a regular file")

// Open is [os.OpenFile] for a regular file. For anything else, such as a named pipe or a
// device, the error matches [ErrNotRegular]. Open never blocks, even on a pipe.
func Open(path string, flag int, perm fs.FileMode) (*os.File, error) {
	file, err := os.OpenFile(path, flag|syscall.O_NONBLOCK, perm)
	if errors.Is(err, syscall.ENXIO) { // a pipe without a reader, or a socket
		return nil, &fs.PathError{Op: "open", Path: path, Err: ErrNotRegular}
	} else if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: ErrNotRegular}
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// ReadFile is [os.ReadFile] for a regular file; see [Open].
func ReadFile(path string) ([]byte, error) {
	file, err := Open(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(file)
}
