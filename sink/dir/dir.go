// Package dir is a sink that keeps one file for each key, with the body. A PUT
// replaces the file, a DELETE removes it, a PATCH changes the JSON in it.
//
// [FileName] returns the name of the file. The metadata of the entity is in
// DIR/.feedctl/meta/NAME.json, an object with key (keyBase64 if it is not
// UTF-8), contentId, lastModified (RFC 3339), contentType, and headers (name
// to array of values). A PATCH changes body, contentId and lastModified; the
// content type and the headers remain those of the PUT. If a snapshot has replaced the data after
// a gap, the object also has a member "replaced": the number of the batch that wrote it.
//
// # Exactly once
//
// A batch is first written to DIR/.feedctl/batch-N, where N counts commits: for
// each key a file with the body and one with the metadata. Patches are applied at
// this time, so that only moves and removals of files remain, which are
// idempotent. When all files are durable, one rename commits the batch: that of
// DIR/.feedctl/position, which holds the position and the changes of the batch.
// Only then are the files moved. Moves that a crash interrupts are repeated when
// the directory is opened; a batch that was not committed is removed.
//
// A reader sees each file complete, the old or the new one, but may see a part of
// a batch before the rest.
//
// All of the directory must be on one file system, which must be case-sensitive.
package dir

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/feedctl/feedctl/consumer"
	"github.com/feedctl/feedctl/sink"
	"github.com/feedctl/feedctl/sink/internal/content"
	"github.com/feedctl/feedctl/sink/internal/durable"
	"github.com/feedctl/feedctl/sink/internal/session"
)

// FromSpec opens a sink named dir:DIR; it is a [sink.Opener].
func FromSpec(_ context.Context, s sink.Spec) (consumer.Sink, error) {
	if err := s.CheckParams(); err != nil {
		return nil, err
	}
	return Open(s.Path)
}

// Open opens the directory. It creates the directory if it does not exist, but not
// its parent. It returns an error if the directory has files but no position, and
// [sink.ErrLocked] if another consumer has it open.
func Open(path string) (consumer.Sink, error) { return open(path, durable.FS{}) }

func open(path string, fs durable.FS) (consumer.Sink, error) {
	name := "dir:" + path
	lock, err := takeLock(path, fs)
	if err != nil {
		return nil, fmt.Errorf("open sink %s: %w", name, err)
	}
	return session.OpenReplacer(context.Background(), name, &target{path: path, fs: fs, lock: lock})
}

func takeLock(path string, fs durable.FS) (*durable.File, error) {
	if err := sink.CheckParent(path); err != nil {
		return nil, err
	}
	if err := durable.CheckDirs(); err != nil {
		return nil, err
	}
	if err := fs.Mkdir(path); err != nil {
		return nil, err
	}
	if err := fs.Mkdir(filepath.Join(path, control)); err != nil {
		return nil, err
	}
	lock, err := fs.Open(filepath.Join(path, control, "lock"), os.O_CREATE)
	if err != nil {
		return nil, err
	}
	err = lock.Lock()
	if err == nil {
		if _, e := os.Stat(filepath.Join(path, control, "LOCK")); e == nil {
			err = errors.New("its file system is not case-sensitive, so two keys might share a file: use another file system")
		}
	}
	if err != nil {
		lock.Close()
		return nil, err
	}
	return lock, nil
}

// control is the directory for everything but the bodies. It is not the file name of any key.
const control = ".feedctl"

// A target is a directory with one file for each key.
type target struct {
	path      string
	fs        durable.FS
	lock      *durable.File
	committed head
	batch     batch
	body      content.Reader
	copyBuf   []byte
}

func (t *target) positionFile() string        { return filepath.Join(t.path, control, "position") }
func (t *target) meta() string                { return filepath.Join(t.path, control, "meta") }
func (t *target) file(name string) string     { return filepath.Join(t.path, name) }
func (t *target) metaFile(name string) string { return filepath.Join(t.meta(), name+".json") }
func (t *target) stage(batch int64) string {
	return filepath.Join(t.path, control, "batch-"+strconv.FormatInt(batch, 10))
}

// staged returns the paths of the body and the metadata of staged file n.
func staged(stage string, n int) (body, meta string) {
	path := filepath.Join(stage, strconv.Itoa(n))
	return path, path + ".json"
}

func (t *target) Close() error { return t.lock.Close() }
