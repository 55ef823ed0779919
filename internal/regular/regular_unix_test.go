//go:build unix

package regular_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/feedctl/feedctl/internal/regular"
)

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	file, pipe := filepath.Join(dir, "file"), filepath.Join(dir, "pipe")
	if err := os.WriteFile(file, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path string
		flag int
		want error
	}{
		{file, os.O_RDONLY, nil},
		{file, os.O_RDWR | os.O_CREATE, nil},
		{filepath.Join(dir, "new"), os.O_WRONLY | os.O_CREATE, nil},
		{filepath.Join(dir, "none"), os.O_RDONLY, fs.ErrNotExist},
		{pipe, os.O_RDONLY, regular.ErrNotRegular},
		{pipe, os.O_WRONLY, regular.ErrNotRegular},
		{pipe, os.O_RDWR | os.O_CREATE, regular.ErrNotRegular},
		{dir, os.O_RDONLY, regular.ErrNotRegular},
		{"/dev/null", os.O_RDWR, regular.ErrNotRegular},
	} {
		f, err := regular.Open(c.path, c.flag, 0o600)
		if !errors.Is(err, c.want) {
			t.Errorf("open %s: %v, want %v", c.path, err, c.want)
		}
		if err == nil {
			f.Close()
		}
	}
}
