package damagetest

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/feedctl/feedctl/storage/file"
)

// A fileStore is a file store whose files can be damaged and restored.
type fileStore struct {
	t     *testing.T
	dir   string
	files map[string][]byte // by path in dir
	data  map[string]string
}

func newFileStore(t *testing.T) *fileStore {
	f := &fileStore{t: t, dir: filepath.Join(t.TempDir(), "store"), files: make(map[string][]byte)}
	store, err := file.New(f.dir)
	check(t, err)
	defer store.Close()
	fill(t, store)
	f.data = truth(t, store)
	check(t, filepath.WalkDir(f.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		name, _ := filepath.Rel(f.dir, path)
		f.files[name], err = os.ReadFile(path)
		return err
	}))
	return f
}

// key returns a prefix of the key of the object to which a file belongs.
func key(name string) string {
	key, _, _ := strings.Cut(strings.TrimPrefix(name, "objects/"), "@")
	return key
}

func (f *fileStore) write(name string, data []byte) {
	f.t.Helper()
	check(f.t, os.WriteFile(filepath.Join(f.dir, name), data, 0o600))
}

// inspect lets readers read the damaged store, and then restores the files.
func (f *fileStore) inspect(what string, thorough bool, damaged ...string) {
	f.t.Helper()
	store, err := file.New(f.dir)
	if err == nil {
		for _, name := range damaged {
			inspect(f.t, store, what, key(name), f.data, thorough)
		}
		store.Close()
	}
	for _, name := range damaged {
		f.write(name, f.files[name])
	}
}

// TestFlips changes bits of all files, one at a time.
func TestFlips(t *testing.T) {
	t.Parallel()
	f := newFileStore(t)
	for name, data := range f.files {
		step := 31 // about one bit in every four bytes, different ones in each run
		switch {
		case *all:
			step = 1
		case strings.HasSuffix(name, "@meta"):
			step = 131 // the driver's own tests change more bits of these
		}
		flips := 0
		for i, bit := range sample(len(data)*8, step) {
			if !*all && padding(data, bit/8) && i%32 > 0 {
				continue
			}
			f.write(name, flipped(data, bit))
			f.inspect(fmt.Sprintf("%s, bit %d", name, bit), flips%10 == 0, name)
			flips++
		}
	}
}

// padding reports whether a byte of a file only fills a slot of the metadata. Most bytes of the metadata are
// padding, and damage to any of them looks the same to a reader.
func padding(data []byte, i int) bool {
	return i > 0 && data[i-1] == '\n' && data[i] == '\n'
}

// TestFiles removes, empties and truncates each file, and exchanges the contents of each pair of files.
func TestFiles(t *testing.T) {
	t.Parallel()
	f := newFileStore(t)
	for name, data := range f.files {
		for _, size := range []int{0, 1, len(data) / 2, len(data) - 1} {
			f.write(name, data[:max(min(size, len(data)), 0)])
			f.inspect(name+" cut", true, name)
		}
		f.write(name, slices.Concat(data, data))
		f.inspect(name+" twice", true, name)
		check(t, os.Remove(filepath.Join(f.dir, name)))
		if !lost(name) {
			f.inspect(name+" removed", true, name)
		} else {
			f.write(name, data)
		}
		for other, content := range f.files {
			if other > name {
				f.write(name, content)
				f.write(other, data)
				f.inspect(name+" and "+other+" exchanged", false, name, other)
			}
		}
	}
}

// lost reports whether a file is the metadata of the newest page, without which the feed seems to end before
// that page. Only a reader with a position on the page can notice this.
func lost(name string) bool {
	return name == "objects/feeds/f/pages/000000000004@meta"
}
