package input

import (
	"errors"
	"io/fs"
	"iter"
	"mime"
	"path"
	"unicode/utf8"

	"github.com/feedctl/feedctl/feed"
)

// DirectoryOptions apply to all files of a [Directory].
type DirectoryOptions struct {
	Operation feed.Operation // "" means PUT
	// ContentType is the media type of all files. If it is "", the type follows from the extension of each
	// file's name, and is application/octet-stream for an unknown extension.
	ContentType string
	// Skipped, if set, is called for each entry that is skipped, with the reason:
	// ErrNotFile or ErrName.
	Skipped func(name string, why error)
}

// These are the reasons for which [Directory] skips an entry, to be matched with [errors.Is].
var (
	// ErrNotFile means that the entry is a symbolic link, a named pipe, a socket or a device.
	ErrNotFile = errors.New("neither a regular file nor a directory")
	// ErrName means that the name is not UTF-8 and so cannot be a key. The contents of a directory with such
	// a name are skipped, too.
	ErrName = errors.New("name is not UTF-8")
)

// maxWholeFile is the size of the largest file that is read into memory, in bytes.
const maxWholeFile = 256 << 10

// Directory yields one entity for each regular file below the root of fsys, in
// the order of their paths. The key is the path. Files of more than 256 KiB
// become Streams. Other entries are skipped: symbolic links are not followed.
func Directory(fsys fs.FS, o DirectoryOptions) iter.Seq2[*feed.Entity, error] {
	return func(yield func(*feed.Entity, error) bool) {
		err := fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, err error) error {
			if err != nil {
				return &Error{Where: "file " + name, Err: err}
			}
			switch {
			case !utf8.ValidString(name):
				o.skipped(name, ErrName)
				if entry.IsDir() {
					return fs.SkipDir
				}
				return nil
			case entry.Type().IsRegular():
				return o.file(fsys, name, yield)
			case !entry.IsDir():
				o.skipped(name, ErrNotFile)
			}
			return nil
		})
		if err != nil && err != fs.SkipAll {
			yield(nil, err)
		}
	}
}

func (o DirectoryOptions) skipped(name string, why error) {
	if o.Skipped != nil {
		o.Skipped(name, why)
	}
}

// file yields one file. It returns fs.SkipAll if yield returns false.
func (o DirectoryOptions) file(fsys fs.FS, name string, yield func(*feed.Entity, error) bool) error {
	f, err := fsys.Open(name)
	if err != nil {
		return &Error{Where: "file " + name, Err: err}
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return &Error{Where: "file " + name, Err: err}
	}
	if !info.Mode().IsRegular() {
		return &Error{Where: "file " + name, Err: ErrNotFile}
	}
	e := &feed.Entity{
		Operation:       o.Operation,
		ContentType:     o.ContentType,
		ContentLocation: feed.EncodeKey(name),
	}
	if e.ContentType == "" {
		e.ContentType = mime.TypeByExtension(path.Ext(name))
	}
	if e.ContentType == "" {
		e.ContentType = "application/octet-stream"
	}
	if err := complete(e); err != nil {
		return &Error{Where: "file " + name, Err: err}
	}
	if err := setBody(e, f, info.Size(), maxWholeFile); err != nil {
		return &Error{Where: "file " + name, Err: err}
	}
	if !yield(e, nil) {
		return fs.SkipAll
	}
	return nil
}
