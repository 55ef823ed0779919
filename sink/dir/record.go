package dir

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/regular"
)

// A head is the first line of the position file.
type head struct {
	// Version of this format: 1.
	Version int `json:"version"`
	// Batch is the number of commits.
	Batch    int64         `json:"batch"`
	Position feed.Position `json:"position"`
	// Replacing is the number of the first batch of a snapshot that replaces the data, or 0.
	Replacing int64 `json:"replacing,omitempty"`
}

// A change is a further line of the position file: the change of one file.
type change struct {
	Name string `json:"name"`
	// Staged is the number of the staged file that replaces the file, or 0 if the file is removed.
	Staged int `json:"staged,omitempty"`
}

func (t *target) writeRecord(path string, h head, changes iter.Seq2[change, error]) error {
	file, err := t.fs.Open(path, os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	defer file.Close()
	w := bufio.NewWriter(file)
	lines := json.NewEncoder(w)
	if err := lines.Encode(h); err != nil {
		return err
	}
	for c, err := range changes {
		if err != nil {
			return err
		}
		if err := lines.Encode(c); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return file.Sync()
}

// readRecord reads the position file, and passes every change to each, unless each is nil. The error is
// [fs.ErrNotExist] if there is no position file.
func (t *target) readRecord(each func(change) error) (head, error) {
	var h head
	file, err := regular.Open(t.positionFile(), os.O_RDONLY, 0)
	if err != nil {
		return h, err
	}
	defer file.Close()
	lines := json.NewDecoder(bufio.NewReader(file))
	if err := lines.Decode(&h); err != nil {
		return h, fmt.Errorf("read %s: %w", file.Name(), err)
	}
	if h.Version != 1 {
		return h, fmt.Errorf("read %s: version %d: not written by this version of feedctl; use another directory", file.Name(), h.Version)
	}
	for each != nil {
		var c change
		err := lines.Decode(&c)
		if err == io.EOF {
			break
		}
		if err != nil {
			return h, fmt.Errorf("read %s: %w", file.Name(), err)
		}
		if err := each(c); err != nil {
			return h, err
		}
	}
	return h, nil
}

// Recover reads the position, finishes the batch that was committed with it, and
// removes a batch that was not committed.
func (t *target) Recover(context.Context) (feed.Position, error) {
	h, err := t.readRecord(nil)
	if errors.Is(err, fs.ErrNotExist) {
		return feed.Position{}, t.initialize()
	}
	if err != nil {
		return feed.Position{}, err
	}
	// The rename may not be durable yet, but must be before the files are moved.
	if err := t.fs.SyncDir(filepath.Join(t.path, control)); err != nil {
		return feed.Position{}, err
	}
	if err := t.finish(h.Batch); err != nil {
		return feed.Position{}, fmt.Errorf("finish batch %d: %w", h.Batch, err)
	}
	if err := t.fs.RemoveAll(t.stage(h.Batch + 1)); err != nil {
		return feed.Position{}, err
	}
	t.committed = h
	return h.Position, nil
}

// initialize turns an empty directory into a sink.
func (t *target) initialize() error {
	entries, err := os.ReadDir(t.path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() != control {
			return fmt.Errorf("it is not empty, but has no %s: it was not written by feedctl, or its position was lost; use an empty directory", filepath.Join(control, "position"))
		}
	}
	if err := t.fs.Mkdir(t.meta()); err != nil {
		return err
	}
	if err := t.replaceRecord(head{Version: 1}, t.changes()); err != nil {
		return err
	}
	t.committed = head{Version: 1}
	return t.fs.SyncDir(t.path)
}

// replaceRecord commits the batch by renaming the position file.
func (t *target) replaceRecord(h head, changes iter.Seq2[change, error]) error {
	temp := t.positionFile() + ".new"
	if err := t.writeRecord(temp, h, changes); err != nil {
		return err
	}
	if err := t.fs.Rename(temp, t.positionFile()); err != nil {
		return err
	}
	return t.fs.SyncDir(filepath.Join(t.path, control))
}

// finish moves the staged files of a committed batch into place. It may be repeated
// until the next commit. If the stage does not exist, all files have been moved.
func (t *target) finish(batch int64) error {
	stage := t.stage(batch)
	if _, err := os.Stat(stage); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	_, err := t.readRecord(func(c change) error { return t.finishChange(stage, c) })
	if err != nil {
		return err
	}
	for _, dir := range []string{t.path, t.meta()} {
		if err := t.fs.SyncDir(dir); err != nil {
			return err
		}
	}
	return t.fs.RemoveAll(stage)
}

func (t *target) finishChange(stage string, c change) error {
	if c.Staged == 0 {
		if err := t.fs.Remove(t.file(c.Name)); err != nil {
			return err
		}
		return t.fs.Remove(t.metaFile(c.Name))
	}
	body, meta := staged(stage, c.Staged)
	if err := t.move(body, t.file(c.Name)); err != nil {
		return err
	}
	return t.move(meta, t.metaFile(c.Name))
}

// move renames a staged file. If it does not exist, it was moved before a crash.
func (t *target) move(from, to string) error {
	if _, err := os.Lstat(from); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return t.fs.Rename(from, to)
}
