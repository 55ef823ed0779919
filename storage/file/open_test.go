//go:build unix

package file_test

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
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

// TestOpenWhileCreated opens stores while they are being created. Until a store is complete, Open
// reports that there is no store, never that the directory holds something else.
func TestOpenWhileCreated(t *testing.T) {
	dir := t.TempDir()
	for n := range 100 {
		path := filepath.Join(dir, strconv.Itoa(n))
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := file.New(path); err != nil {
				t.Error(err)
			}
		})
		for err := storage.ErrNoStore; errors.Is(err, storage.ErrNoStore) && !t.Failed(); {
			if _, err = file.Open(t.Context(), &url.URL{Scheme: "file", Path: path}); err != nil && !errors.Is(err, storage.ErrNoStore) {
				t.Error(err)
			}
		}
		wg.Wait()
	}
}

// TestReplacedStore moves the directory of an open store away, puts another store in its place, and
// moves the directory back, as if disks were unmounted and mounted.
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
		for _, prefix := range []string{"", "a/", "feeds/"} {
			err := error(nil)
			for _, err = range s.List(t.Context(), prefix, "") {
			}
			if (want == storage.ErrNoStore) != errors.Is(err, storage.ErrNoStore) {
				t.Errorf("%s: List %q: %v, want %v", state, prefix, err, want)
			}
		}
		err = nil
		for _, err = range s.Names(t.Context(), "feeds/", "") {
		}
		if (want == storage.ErrNoStore) != errors.Is(err, storage.ErrNoStore) {
			t.Errorf("%s: Names: %v, want %v", state, err, want)
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

// TestUpgrade opens a store of layout 1 twice, as two processes do. The first write upgrades the
// store; reading does not. Both can continue.
func TestUpgrade(t *testing.T) {
	ctx := t.Context()
	reader, dir := oldStore(t)
	writer, err := file.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	other, err := file.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	info, err := reader.Stat(ctx, oldKey)
	if err != nil {
		t.Fatal(err)
	}
	checkVersionFile := func(want string) {
		t.Helper()
		if content, err := os.ReadFile(filepath.Join(dir, "version")); string(content) != want {
			t.Fatalf("version is %q, %v, want %q", content, err, want)
		}
	}
	checkVersionFile("feedctl file store 1\n")
	if _, err := writer.Append(ctx, oldKey, "another", storage.Meta{}, storage.Bytes()); !errors.Is(err, storage.ErrConflict) {
		t.Fatal(err)
	}
	checkVersionFile("feedctl file store 1\n")
	version, err := writer.Append(ctx, oldKey, info.Version, storage.Meta{}, storage.Bytes([]byte("+")))
	if err != nil {
		t.Fatal(err)
	}
	checkVersionFile(file.Layout)
	if _, err := other.Append(ctx, oldKey, version, storage.Meta{}, storage.Bytes([]byte("+"))); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*file.Store{reader, writer, other} {
		if got, err := s.Stat(ctx, oldKey); err != nil || got.Size != info.Size+2 {
			t.Errorf("Stat: %d bytes, %v", got.Size, err)
		}
		if _, err := s.Stat(ctx, "none"); !errors.Is(err, storage.ErrNotFound) {
			t.Errorf("Stat: %v", err)
		}
		if _, err := s.Create(ctx, filepath.Base(t.TempDir())+"/x", storage.Meta{}, storage.Bytes()); err != nil {
			t.Errorf("Create: %v", err)
		}
	}
}

// TestUpgradeReplaced replaces a store of layout 1 with another one, which must not be upgraded.
func TestUpgradeReplaced(t *testing.T) {
	s, dir := oldStore(t)
	other, otherDir := oldStore(t)
	other.Close()
	t.Cleanup(func() { os.RemoveAll(dir + ".aside") })
	if err := errors.Join(os.Rename(dir, dir+".aside"), os.Rename(otherDir, dir)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Create(t.Context(), "x", storage.Meta{}, storage.Bytes()); !errors.Is(err, storage.ErrNoStore) {
		t.Errorf("Create: %v", err)
	}
	if content, err := os.ReadFile(filepath.Join(dir, "version")); string(content) == file.Layout {
		t.Errorf("version is %q, %v", content, err)
	}
}

// oldKey is the key of an object in the store that oldStore returns.
const oldKey = "feeds/things/pages/000000000003"

// oldStore returns a copy of a store that an earlier version wrote, and its directory.
func oldStore(t *testing.T) (*file.Store, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	if err := os.CopyFS(dir, os.DirFS("../../cmd/feedctl/testdata/file-store-1")); err != nil {
		t.Fatal(err)
	}
	s, err := file.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, dir
}
