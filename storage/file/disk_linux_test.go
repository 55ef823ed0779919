package file_test

import (
	"bytes"
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/google/go-cmp/cmp"

	"github.com/feedctl/feedctl/internal/disktest"
	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/file"
)

// TestFullDisk fills a real file system and continues after space has been freed.
// TestStraceFaults injects the same errors on every machine.
func TestFullDisk(t *testing.T) {
	disk := disktest.Mount(t, "1m")
	ctx := t.Context()
	s, err := file.New(disk)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() // an open store would keep the disk from being unmounted
	piece := bytes.Repeat([]byte("piece of 64 KiB "), 4<<10)
	version, err := s.Create(ctx, "a/b", storage.Meta{Data: []byte("old")}, storage.Bytes([]byte("old")))
	if err != nil {
		t.Fatal(err)
	}
	// Fill the disk with another object until no piece fits any more.
	filler, err := s.Create(ctx, "a/filler", storage.Meta{}, storage.Bytes())
	for err == nil {
		filler, err = s.Append(ctx, "a/filler", filler, storage.Meta{}, storage.Bytes(piece))
	}
	for range 3 {
		before := files(t, disk)
		for name, write := range map[string]func() error{
			"Append": func() error {
				_, err := s.Append(ctx, "a/b", version, storage.Meta{}, storage.Bytes(piece))
				return err
			},
			"Replace": func() error {
				_, err := s.Replace(ctx, "a/b", version, storage.Meta{}, storage.Bytes(piece))
				return err
			},
			"Create": func() error {
				_, err := s.Create(ctx, "new/dir/c", storage.Meta{}, storage.Bytes(piece))
				return err
			},
			"Append to filler": func() error { return err },
		} {
			if err := write(); !errors.Is(err, storage.ErrFull) {
				t.Errorf("%s on a full disk: %v", name, err)
			}
		}
		if diff := cmp.Diff(before, files(t, disk)); diff != "" {
			t.Errorf("files were left behind or lost:\n%s", diff)
		}
		if got, err := s.Stat(ctx, "a/b"); err != nil || got.Version != version || string(got.Meta.Data) != "old" {
			t.Errorf("Stat: %v, %v", got, err)
		}
	}
	// Deleting frees space for further writes.
	if err := s.Delete(ctx, "a/filler"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Append(ctx, "a/b", version, storage.Meta{}, storage.Bytes(piece)); err != nil {
		t.Fatal(err)
	}
}

// TestReadOnlyDisk reads from a disk that is mounted read-only.
func TestReadOnlyDisk(t *testing.T) {
	disk := disktest.Mount(t, "1m")
	ctx := t.Context()
	s, err := file.New(disk)
	if err != nil {
		t.Fatal(err)
	}
	version, err := s.Create(ctx, "a/b", storage.Meta{}, storage.Bytes([]byte("old")))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Close(), unix.Mount("", disk, "", unix.MS_REMOUNT|unix.MS_RDONLY, "")); err != nil {
		t.Fatal(err)
	}
	if s, err = file.New(disk); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	o, err := s.Get(ctx, "a/b", 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	o.Body.Close()
	_, err = s.Append(ctx, "a/b", version, storage.Meta{}, storage.Bytes([]byte("x")))
	if !errors.Is(err, storage.ErrPermission) {
		t.Errorf("Append: %v", err)
	}
	_, err = s.Create(ctx, "a/c", storage.Meta{}, storage.Bytes([]byte("x")))
	if !errors.Is(err, storage.ErrPermission) {
		t.Errorf("Create: %v", err)
	}
	if err := s.Delete(ctx, "a/b"); !errors.Is(err, storage.ErrPermission) {
		t.Errorf("Delete: %v", err)
	}
}
