package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A file describes a file in archives, packages and images.
type file struct {
	name string // with slashes
	mode fs.FileMode
	body []byte
	uid  int // user and group; used only in images
}

// texts maps names of files in the archives to the paths of the files in the repository.
var texts = map[string]string{
	"LICENSE": "LICENSE", "README.md": "README.md", "CHANGELOG.md": "CHANGELOG.md", "NOTICES.txt": "cmd/feedctl/notices.txt",
}

// contents returns the files of the archive for a platform, ordered by name.
func contents(b build, bin binary) ([]file, error) {
	files := append([]file{{name: bin.platform.program(), mode: 0o755, body: bin.body}}, b.docs...)
	for name, source := range texts {
		body, err := os.ReadFile(filepath.Join(b.source, filepath.FromSlash(source)))
		if err != nil {
			return nil, err
		}
		files = append(files, file{name: name, mode: 0o644, body: body})
	}
	if bin.platform.os == "linux" {
		units, err := tree(filepath.Join(b.source, "packaging", "systemd"))
		if err != nil {
			return nil, err
		}
		for _, unit := range units {
			if !unit.mode.IsDir() {
				unit.name = path.Join("systemd", unit.name)
				files = append(files, unit)
			}
		}
	}
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return files, nil
}

// writeArchive writes the archive for a platform, with all files in one directory.
func writeArchive(out string, b build, bin binary) error {
	files, err := contents(b, bin)
	if err != nil {
		return err
	}
	dir := b.name(bin.platform.String())
	for i := range files {
		files[i].name = path.Join(dir, files[i].name)
	}
	if bin.platform.os == "windows" {
		return create(filepath.Join(out, dir+".zip"), func(w io.Writer) error { return writeZip(w, files, b.time) })
	}
	return create(filepath.Join(out, dir+".tar.gz"), func(w io.Writer) error {
		z := gzip.NewWriter(w)
		if err := writeTar(z, files, b.time); err != nil {
			return err
		}
		return z.Close()
	})
}

// create creates a file and calls write to write it. If that fails, it removes the file.
func create(name string, write func(io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	err = write(f)
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err != nil {
		_ = os.Remove(name)
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

func writeTar(w io.Writer, files []file, mtime time.Time) error {
	t := tar.NewWriter(w)
	for _, f := range files {
		h := &tar.Header{Name: f.name, Mode: int64(f.mode.Perm()), Size: int64(len(f.body)), ModTime: mtime, Uid: f.uid, Gid: f.uid, Format: tar.FormatPAX}
		if f.mode.IsDir() {
			h.Typeflag, h.Name = tar.TypeDir, f.name+"/"
		}
		if f.mode&fs.ModeSticky != 0 {
			h.Mode |= 0o1000
		}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(f.body); err != nil {
			return err
		}
	}
	return t.Close()
}

func writeZip(w io.Writer, files []file, mtime time.Time) error {
	z := zip.NewWriter(w)
	for _, f := range files {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: mtime}
		h.SetMode(f.mode)
		part, err := z.CreateHeader(h)
		if err != nil {
			return err
		}
		if _, err := part.Write(f.body); err != nil {
			return err
		}
	}
	return z.Close()
}

// tree reads a directory and everything below it, ordered by name.
func tree(dir string) ([]file, error) {
	var files []file
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		f := file{name: filepath.ToSlash(name), mode: fs.ModeDir | 0o755}
		if !d.IsDir() {
			f.mode = 0o644
			f.body, err = os.ReadFile(path)
		}
		files = append(files, f)
		return err
	})
	return files, err
}
