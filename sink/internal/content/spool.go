package content

import (
	"fmt"
	"io"
	"os"
)

// Spool copies a stream of up to limit bytes to an unlinked temporary file in dir (that of the system, if dir
// is ""), which is deleted when it is closed. The file's offset is at the start. If the stream has more
// bytes, the file has limit+1 of them.
func Spool(dir string, stream io.Reader, limit int64) (*os.File, int64, error) {
	file, err := os.CreateTemp(dir, ".feedctl-body-*")
	if err != nil {
		return nil, 0, fmt.Errorf("spool body: %w", err)
	}
	n, err := spool(file, stream, limit)
	if err != nil {
		file.Close()
		return nil, 0, fmt.Errorf("spool body, after %d bytes: %w", n, err)
	}
	return file, n, nil
}

func spool(file *os.File, stream io.Reader, limit int64) (int64, error) {
	if err := os.Remove(file.Name()); err != nil {
		return 0, err
	}
	n, err := io.Copy(file, io.LimitReader(stream, limit+1))
	if err != nil {
		return n, err
	}
	_, err = file.Seek(0, io.SeekStart)
	return n, err
}
