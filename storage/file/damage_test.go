//go:build unix

package file_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/feedctl/feedctl/storage"
	"github.com/feedctl/feedctl/storage/file"
)

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
		t.Fatal(err)
	}
}

func TestNew(t *testing.T) {
	for name, test := range map[string]struct {
		files map[string]string
		want  error
	}{
		"nothing":               {},
		"root of a disk":        {files: map[string]string{"lost+found/x": ""}},
		"beginning of a store":  {files: map[string]string{"tmp/version@X": "feed"}},
		"store":                 {files: map[string]string{"version": file.Layout, "objects/x": ""}},
		"store of layout 1":     {files: map[string]string{"version": "feedctl file store 1\n", "objects/x": ""}},
		"later layout":          {files: map[string]string{"version": "feedctl file store 3\n"}, want: storage.ErrLayout},
		"cut version":           {files: map[string]string{"version": "feedctl file store 2"}, want: storage.ErrLayout},
		"empty version":         {files: map[string]string{"version": ""}, want: storage.ErrLayout},
		"something else":        {files: map[string]string{"notes.txt": ""}, want: storage.ErrLayout},
		"objects but no layout": {files: map[string]string{"objects/a@meta": "{}"}, want: storage.ErrLayout},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "new", "store")
			for path, content := range test.files {
				write(t, filepath.Join(dir, path), content)
			}
			before := ""
			if test.want != nil {
				before = strings.Join(files(t, dir), "\n")
			}
			s, err := file.New(dir)
			if !errors.Is(err, test.want) {
				t.Fatalf("error is %v, want %v", err, test.want)
			}
			if err != nil {
				if after := strings.Join(files(t, dir), "\n"); after != before {
					t.Errorf("a directory that was refused has changed:\n%s", after)
				}
				return
			}
			if _, err := s.Create(t.Context(), "a/b", storage.Meta{}, storage.Bytes()); err != nil {
				t.Error(err)
			}
			if version, err := os.ReadFile(filepath.Join(dir, "version")); string(version) != file.Layout {
				t.Errorf("version is %q, %v", version, err)
			}
		})
	}
}

func TestOpen(t *testing.T) {
	t.Chdir(t.TempDir())
	registry := storage.Registry{"file": file.Create}
	abs, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for rawURL, want := range map[string]string{
		"file:x":                                "x",
		"file:./y":                              "y",
		"file:../" + filepath.Base(abs) + "/up": "up",
		"file:a%20b":                            "a b",
		"file:" + abs + "/z":                    "z",
		"file://" + abs + "/w%25/w":             "w%/w",
		"file://localhost" + abs + "/v":         "v",
	} {
		s, err := registry.Open(t.Context(), rawURL)
		if err != nil {
			t.Errorf("%s: %v", rawURL, err)
			continue
		}
		if _, err := os.Stat(filepath.Join(want, "version")); err != nil {
			t.Errorf("%s: %v", rawURL, err)
		}
		s.Close()
	}
	for _, rawURL := range []string{"file:", "file://", "file://host/dir", "file:x?y=z", "file:x#y", "file://user@/x", "file:%zz"} {
		if _, err := registry.Open(t.Context(), rawURL); err == nil {
			t.Errorf("%s: no error", rawURL)
		}
	}
	if _, err := file.Open(t.Context(), &url.URL{Scheme: "s3", Path: "/x"}); err == nil {
		t.Error("s3: no error")
	}
}

// TestDamage damages the files of an object in every way. A read must return an error,
// never wrong bytes, and Delete must still work.
func TestDamage(t *testing.T) {
	ctx := t.Context()
	flip := func(at int) func(string) error { // in both slots
		return func(path string) error {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			at := at % len(bytes.TrimRight(data[:len(data)/2], "\n")) // not in the padding, which begins earlier if the time is short
			data[at] ^= 1
			data[len(data)/2+at] ^= 1
			return os.WriteFile(path, data, 0)
		}
	}
	cut := func(n int64) func(string) error {
		return func(path string) error {
			info, err := os.Stat(path)
			if err != nil {
				return err
			}
			return os.Truncate(path, info.Size()-n)
		}
	}
	long := func(path string) error { return os.Truncate(path, 1<<20) }
	type damage struct {
		do   func(path string) error
		body bool
	}
	damages := map[string]damage{
		"metadata empty":              {do: func(path string) error { return os.Truncate(path, 0) }},
		"metadata cut":                {do: cut(1)},
		"metadata truncated a lot":    {do: cut(20)},
		"metadata too long":           {do: long},
		"body missing":                {do: os.Remove, body: true},
		"body cut":                    {do: cut(1), body: true},
		"metadata names another body": {do: flip(60)},
	}
	for i := range 40 {
		damages["metadata bit "+string(rune('a'+i))] = damage{do: flip(i * 4)}
	}
	for name, damage := range damages {
		s, dir := newStoreDir(t)
		version, err := s.Create(ctx, "a/b", storage.Meta{Data: []byte("data")}, storage.Bytes([]byte("body")))
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "objects", "a", "b@meta")
		if damage.body {
			path = bodyFiles(t, dir, "a/b")[0]
		}
		if err := damage.do(path); err != nil {
			t.Fatal(err)
		}
		if o, err := s.Get(ctx, "a/b", 0, -1); !errors.Is(err, storage.ErrLayout) || errors.Is(err, storage.ErrNotFound) {
			t.Errorf("%s: Get: %v, %v", name, o, err)
		}
		if _, err := s.Append(ctx, "a/b", version, storage.Meta{}, storage.Bytes([]byte("x"))); !errors.Is(err, storage.ErrLayout) {
			t.Errorf("%s: Append: %v", name, err)
		}
		if _, err := s.Create(ctx, "a/b", storage.Meta{}, storage.Bytes()); !errors.Is(err, storage.ErrExists) {
			t.Errorf("%s: Create: %v", name, err)
		}
		if !damage.body {
			var last error
			for _, last = range s.List(ctx, "", "") {
			}
			if !errors.Is(last, storage.ErrLayout) {
				t.Errorf("%s: List: %v", name, last)
			}
			if freed, err := s.Sweep(ctx, -time.Minute); freed != 0 || err != nil {
				t.Errorf("%s: Sweep: freed %d bytes, %v, although the body may be needed for a repair", name, freed, err)
			}
		}
		if err := s.Delete(ctx, "a/b"); err != nil {
			t.Errorf("%s: Delete: %v", name, err)
		}
		if _, err := s.Create(ctx, "a/b", storage.Meta{}, storage.Bytes()); err != nil {
			t.Errorf("%s: Create after Delete: %v", name, err)
		}
	}
}

// TestDamagedSlot damages each slot in turn. The other one still has the state, and the next append
// repairs the damage.
func TestDamagedSlot(t *testing.T) {
	ctx := t.Context()
	for appends := range 3 {
		for slot := range 2 {
			for at := 0; at < 300; at += 7 {
				s, dir := newStoreDir(t)
				version, err := s.Create(ctx, "a", storage.Meta{}, storage.Bytes([]byte("body")))
				want := "body"
				for range appends {
					if err == nil {
						version, err = s.Append(ctx, "a", version, storage.Meta{}, storage.Bytes([]byte("+")))
						want += "+"
					}
				}
				path := filepath.Join(dir, "objects", "a@meta")
				data, readErr := os.ReadFile(path)
				if err := errors.Join(err, readErr); err != nil {
					t.Fatal(err)
				}
				data[slot*len(data)/2+at] ^= 1
				write(t, path, string(data))
				if err := storage.Sync(ctx, s, "a"); err != nil {
					t.Error(err)
				}
				if version, err = s.Append(ctx, "a", version, storage.Meta{}, storage.Bytes([]byte("."))); err != nil {
					t.Fatal(err)
				}
				if data, err = os.ReadFile(path); err != nil || !bytes.Equal(data[:len(data)/2], data[len(data)/2:]) {
					t.Errorf("after %d appends, slot %d, byte %d: the slots differ after another append: %v", appends, slot, at, err)
				}
				o, err := s.Get(ctx, "a", 0, -1)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(o.Body)
				if o.Body.Close(); err != nil || o.Version != version || string(body) != want+"." {
					t.Errorf("after %d appends, slot %d, byte %d: body %q, %v", appends, slot, at, body, err)
				}
			}
		}
	}
}

// TestLargeState appends metadata that grows beyond a slot, and shrinks.
func TestLargeState(t *testing.T) {
	ctx := t.Context()
	s := newStore(t)
	version, err := s.Create(ctx, "a", storage.Meta{}, storage.Last(storage.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	body := ""
	for i, size := range []int{0, 100, 2500, 3500, 100, 9000, storage.MaxMeta, storage.MaxMeta, 0} {
		data, tail := bytes.Repeat([]byte{byte(i)}, size), strings.Repeat(string(rune('a'+i)), i*1000)
		if version, err = s.Append(ctx, "a", version, storage.Meta{Data: data}, storage.Bytes([]byte(tail))); err != nil {
			t.Fatal(err)
		}
		body += tail
		o, err := s.Get(ctx, "a", 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(o.Body)
		if o.Body.Close(); err != nil || string(got) != body || !bytes.Equal(o.Meta.Data, data) || o.Version != version {
			t.Errorf("append %d: %d bytes, %d of metadata, %v", i, len(got), len(o.Meta.Data), err)
		}
	}
}

// TestTruncatedWhileOpen truncates the file of an open body. The reader must not return
// io.EOF.
func TestTruncatedWhileOpen(t *testing.T) {
	s, dir := newStoreDir(t)
	if _, err := s.Create(t.Context(), "a", storage.Meta{}, storage.Bytes(make([]byte, 1000))); err != nil {
		t.Fatal(err)
	}
	for name, read := range map[string]func(io.Reader) error{
		"Read": func(r io.Reader) error { _, err := io.ReadAll(r); return err },
		"WriteTo": func(r io.Reader) error {
			_, err := r.(io.WriterTo).WriteTo(new(bytes.Buffer))
			return err
		},
	} {
		o, err := s.Get(t.Context(), "a", 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		defer o.Body.Close()
		path := bodyFiles(t, dir, "a")[0]
		if err := os.Truncate(path, 500); err != nil {
			t.Fatal(err)
		}
		if err := read(o.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: error is %v, want %v", name, err, io.ErrUnexpectedEOF)
		}
		if err := os.Truncate(path, 1000); err != nil {
			t.Fatal(err)
		}
	}
}

// TestForeignLock cancels a write that waits for a lock held by another process. The test itself
// acts as that process, with a file descriptor of its own.
func TestForeignLock(t *testing.T) {
	s, dir := newStoreDir(t)
	version, err := s.Create(t.Context(), "a", storage.Meta{}, storage.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	var held []*os.File
	for i := range 256 {
		f, err := os.Create(filepath.Join(dir, "locks", string("0123456789abcdef"[i/16])+string("0123456789abcdef"[i%16])))
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			t.Fatal(err)
		}
		held = append(held, f)
	}
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := s.Append(ctx, "a", version, storage.Meta{}, storage.Bytes([]byte("x")))
			done <- err
		}()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Fatalf("Append cancelled while it waits: %v", err)
		}
	}
	done := make(chan error)
	go func() {
		_, err := s.Append(t.Context(), "a", version, storage.Meta{}, storage.Bytes([]byte("x")))
		done <- err
	}()
	for _, f := range held {
		f.Close()
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// TestStoreGone removes the directory, as unmounting the disk does. The store must neither
// appear empty nor be created again.
func TestStoreGone(t *testing.T) {
	s, dir := newStoreDir(t)
	if err := os.RemoveAll(filepath.Join(dir, "objects")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Create(t.Context(), "a/b", storage.Meta{}, storage.Bytes()); !errors.Is(err, storage.ErrLayout) {
		t.Errorf("Create: %v", err)
	}
	if _, err := s.Stat(t.Context(), "a/b"); err == nil || errors.Is(err, storage.ErrNotFound) {
		t.Errorf("Stat: %v", err)
	}
	for _, err := range s.List(t.Context(), "", "") {
		if !errors.Is(err, storage.ErrLayout) {
			t.Errorf("List: %v", err)
		}
	}
	if err := s.Delete(t.Context(), "a/b"); err == nil {
		t.Error("Delete: no error")
	}
}

// TestPipe replaces each file of an object with a named pipe. Opening a pipe for reading would
// block until there is a writer.
func TestPipe(t *testing.T) {
	dir := t.TempDir()
	s, err := file.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Create(t.Context(), "key", storage.Meta{}, storage.Bytes([]byte("body"))); err != nil {
		t.Fatal(err)
	}
	paths, err := filepath.Glob(filepath.Join(dir, "objects", "key@*"))
	if err != nil || len(paths) != 2 {
		t.Fatalf("an object has the files %q (%v), want a body and its metadata", paths, err)
	}
	for _, path := range paths {
		if err := os.Rename(path, path+".aside"); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mkfifo(path, 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Get(t.Context(), "key", 0, -1); err == nil || !strings.Contains(err.Error(), path+": not a regular file") {
			t.Errorf("%s is a pipe: %v", path, err)
		}
		if err := os.Rename(path+".aside", path); err != nil {
			t.Fatal(err)
		}
	}
}
