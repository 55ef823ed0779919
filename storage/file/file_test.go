//go:build unix

package file_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/fault"
	"github.com/feedctl/feedctl/storage/file"
	"github.com/feedctl/feedctl/storage/storagetest"
)

func TestMain(m *testing.M) {
	if verb, ok := os.LookupEnv(tracedVariable); ok {
		runtime.LockOSThread() // strace counts the calls of each thread separately
		fmt.Print(runTraced(verb))
		return
	}
	storagetest.Main(m, storage.Registry{"file": file.Create}.Open)
}

// allTests enables longer tests, which rarely find more.
var allTests = flag.Bool("all", false, "run longer races, and kill four times as many writers")

// TestStore runs the suite for stores. It syncs thousands of times: if the disk is busy, it is much
// faster with TMPDIR on a file system in memory.
func TestStore(t *testing.T) {
	kills := 25
	if *allTests {
		kills *= 4
	}
	var dirs sync.Map // by store
	dir := func(s storage.Store) string {
		dir, _ := dirs.Load(s)
		return dir.(string)
	}
	storagetest.Run(t, func(t *testing.T) storage.Store {
		s, dir := newStoreDir(t)
		dirs.Store(s, dir)
		return s
	}, storagetest.Options{
		URL:        func(s storage.Store) string { return "file://" + dir(s) },
		Leftovers:  func(t *testing.T, s storage.Store, key string) { leave(t, dir(s), key) },
		Kills:      kills,
		Long:       *allTests,
		Properties: properties,
	})
}

var properties = storage.Properties{Watches: true, Clock: true, Sweeps: true, Syncs: true, Names: true, Recovers: true}

// TestWrappedStore: a wrapper does not hide optional interfaces.
func TestWrappedStore(t *testing.T) {
	storagetest.RunOptional(t, func(t *testing.T) storage.Store {
		return fault.Wrap(newStore(t), func(fault.Op) fault.Outcome { return fault.Pass })
	}, storagetest.Options{Properties: properties})
}

func newStore(t *testing.T) *file.Store {
	s, _ := newStoreDir(t)
	return s
}

func newStoreDir(t *testing.T) (*file.Store, string) {
	t.Helper()
	dir := t.TempDir()
	s, err := file.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s, dir
}

// leave leaves behind what a killed writer would: a temporary file, a body without
// metadata, and an uncommitted tail.
func leave(t *testing.T, dir, key string) {
	t.Helper()
	object := filepath.Join(dir, "objects", filepath.FromSlash(key))
	if err := os.MkdirAll(filepath.Dir(object), 0o777); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		filepath.Join(dir, "tmp", "meta@AAAAAAAAAAAAAAAAAAAAAAAAAA"),
		object + "@AAAAAAAAAAAAAAAAAAAAAAAAAA",
	} {
		if err := os.WriteFile(path, []byte("unfinished"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range bodyFiles(t, dir, key) {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString("uncommitted tail"); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func bodyFiles(t *testing.T, dir, key string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "objects", filepath.FromSlash(key)) + "@[A-Z2-7]*")
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// runTraced performs one operation in a traced process; see traced.
func runTraced(verb string) string {
	s, err := file.New(os.Getenv(tracedDirVariable))
	if err == nil {
		err = operate(context.Background(), s, verb)
	}
	return class(err)
}

// TestDanglingRoot: New does not create the target of a dangling link, since the target's disk may
// not be mounted.
func TestDanglingRoot(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := os.Symlink(filepath.Join(dir, "unmounted"), link); err != nil {
		t.Fatal(err)
	}
	for _, root := range []string{link, filepath.Join(link, "store"), filepath.Join(link, "a", "b")} {
		if _, err := file.New(root); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("New(%q): %v, want fs.ErrNotExist", root, err)
		}
	}
}

// TestInterruptedAppend appends after an interrupted append. Space beyond the room for appends is
// freed at once; the last append, or a sweep, frees the rest.
func TestInterruptedAppend(t *testing.T) {
	ctx := t.Context()
	for _, garbage := range []int{0, 100, 1 << 20} {
		for name, finish := range map[string]func(s *file.Store, v storage.Version) error{
			"append": func(s *file.Store, v storage.Version) error {
				_, err := s.Append(ctx, "a", v, storage.Meta{}, storage.Last(storage.Bytes()))
				return err
			},
			"sweep": func(s *file.Store, _ storage.Version) error {
				_, err := s.Sweep(ctx, -time.Minute)
				return err
			},
		} {
			s, dir := newStoreDir(t)
			version, err := s.Create(ctx, "a", storage.Meta{}, storage.Bytes([]byte("body")))
			if err != nil {
				t.Fatal(err)
			}
			path := bodyFiles(t, dir, "a")[0]
			write(t, path, "body"+strings.Repeat("x", garbage))
			for n, want := range []string{"body+", "body++"} {
				if version, err = s.Append(ctx, "a", version, storage.Meta{}, storage.Bytes([]byte("+"))); err != nil {
					t.Fatal(err)
				}
				data, err := os.ReadFile(path)
				if err != nil || !strings.HasPrefix(string(data), want) || len(data) > 100<<10 {
					t.Errorf("%s, %d bytes of garbage, append %d: the file has %d bytes, %v", name, garbage, n, len(data), err)
				}
			}
			if err := finish(s, version); err != nil {
				t.Fatal(err)
			}
			if data, err := os.ReadFile(path); string(data) != "body++" {
				t.Errorf("%s, %d bytes of garbage: the file has %d bytes in the end, %v", name, garbage, len(data), err)
			}
			if freed, err := s.Sweep(ctx, -time.Minute); freed != 0 || err != nil {
				t.Errorf("Sweep freed %d bytes, %v", freed, err)
			}
		}
	}
}

// TestLeftoverRoom: the body that can be recovered after the loss of the metadata does not
// include the room for appends.
func TestLeftoverRoom(t *testing.T) {
	ctx := t.Context()
	for _, lost := range []bool{false, true} {
		for body, want := range map[string]int64{"": 0, "body": 4, "zeros\x00\x00": 7} {
			s, dir := newStoreDir(t)
			version, err := s.Create(ctx, "a", storage.Meta{}, storage.Bytes())
			if err == nil {
				_, err = s.Append(ctx, "a", version, storage.Meta{}, storage.Bytes([]byte(body)))
			}
			if lost {
				err = errors.Join(err, os.Remove(filepath.Join(dir, "objects", "a@meta")))
			} else {
				want = int64(len(body))
			}
			if err != nil {
				t.Fatal(err)
			}
			leftovers, err := s.Leftovers(ctx, "a")
			if err != nil {
				t.Fatal(err)
			}
			var got int64
			for _, r := range leftovers {
				got += r.Size
			}
			if got != want || len(leftovers) > 1 {
				t.Errorf("%q, lost %v: leftovers are %v", body, lost, leftovers)
			}
		}
	}
}
