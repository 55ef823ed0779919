//go:build unix

package file_test

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/file"
)

// TestOpenCreatesNothing opens directories that hold no store. Open must create nothing.
func TestOpenCreatesNothing(t *testing.T) {
	for name, test := range map[string]struct {
		path string
		want error
	}{
		"missing":              {"none", storage.ErrNoStore},
		"missing parents":      {"none/at/all", storage.ErrNoStore},
		"empty":                {"empty", storage.ErrNoStore},
		"dangling link":        {"link", storage.ErrNoStore},
		"beginning of a store": {"begun", storage.ErrNoStore},
		"something else":       {"other", storage.ErrLayout},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, made := range []string{"empty", "begun/objects", "begun/tmp", "other/x"} {
				if err := os.MkdirAll(filepath.Join(dir, made), 0o777); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Symlink(filepath.Join(dir, "unmounted"), filepath.Join(dir, "link")); err != nil {
				t.Fatal(err)
			}
			before := len(files(t, dir))
			_, err := file.Open(t.Context(), &url.URL{Scheme: "file", Path: filepath.Join(dir, test.path)})
			if !errors.Is(err, test.want) {
				t.Errorf("error is %v, want %v", err, test.want)
			}
			if after := files(t, dir); len(after) != before {
				t.Errorf("files were created: %v", after)
			}
			if _, err := os.Stat(filepath.Join(dir, "none")); err == nil {
				t.Error("a directory was created")
			}
		})
	}
}

// TestReplacedStore moves the directory of an open store away, puts another store in its place,
// and moves it back, like disks that are unmounted and mounted.
func TestReplacedStore(t *testing.T) {
	s, dir := newStoreDir(t)
	if _, err := s.Create(t.Context(), "a/b", storage.Meta{}, storage.Bytes()); err != nil {
		t.Fatal(err)
	}
	check := func(state string, want error) {
		t.Helper()
		if _, err := s.Stat(t.Context(), "none"); !errors.Is(err, want) {
			t.Errorf("%s: Stat: %v, want %v", state, err, want)
		}
		_, err := s.Create(t.Context(), "none/"+filepath.Base(t.TempDir()), storage.Meta{}, storage.Bytes())
		if (err == nil) != (want == storage.ErrNotFound) {
			t.Errorf("%s: Create: %v", state, err)
		}
		for _, err := range s.List(t.Context(), "", "") {
			if want == storage.ErrNoStore && !errors.Is(err, want) {
				t.Errorf("%s: List: %v, want %v", state, err, want)
			}
		}
	}
	move := func(from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	aside := dir + ".aside"
	t.Cleanup(func() { os.RemoveAll(aside) })
	move(dir, aside)
	check("away", storage.ErrNoStore)
	other, err := file.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	check("another", storage.ErrNoStore)
	move(dir, dir+".other")
	t.Cleanup(func() { os.RemoveAll(dir + ".other") })
	move(aside, dir)
	check("back", storage.ErrNotFound)
	if _, err := s.Stat(t.Context(), "a/b"); err != nil {
		t.Errorf("back: %v", err)
	}
}
