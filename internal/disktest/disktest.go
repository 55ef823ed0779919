// Package disktest provides small disks that tests can fill.
package disktest

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Mount mounts an empty disk in memory until the test ends. The size has the form 1m. This requires Linux and
// root, with CAP_SYS_ADMIN in a container; otherwise, the test is skipped, and .ci/run reports that.
func Mount(t testing.TB, size string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	unmount, err := mount(dir, size)
	if errors.Is(err, os.ErrPermission) || errors.Is(err, errors.ErrUnsupported) {
		t.Skipf("mount a small disk: %v: run the tests as root, in a container with CAP_SYS_ADMIN", err)
	}
	if err != nil {
		t.Fatalf("mount a small disk: %v", err)
	}
	t.Cleanup(func() {
		if err := unmount(); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

// Fill fills the disk that a directory is on. The returned function frees the space again.
func Fill(t testing.TB, dir string) (free func()) {
	t.Helper()
	filler := filepath.Join(dir, "filler")
	file, err := os.Create(filler)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for block := make([]byte, 4096); err == nil; {
		_, err = file.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(filler); err != nil {
			t.Error(err)
		}
	}
}
