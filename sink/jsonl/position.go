package jsonl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/regular"
)

type record struct {
	// Version of this format: 1.
	Version int `json:"version"`
	// Length is the number of bytes of the data file that were committed.
	Length   int64         `json:"length"`
	Position feed.Position `json:"position"`
}

func positionFile(path string) string { return path + ".position" }

// readRecord reads a position file. The error is [fs.ErrNotExist] if there is none.
func readRecord(path string) (record, error) {
	data, err := regular.ReadFile(positionFile(path))
	if err != nil {
		return record{}, fmt.Errorf("read position: %w", err)
	}
	var r record
	if err := json.Unmarshal(data, &r); err != nil {
		return record{}, fmt.Errorf("read position %s: %w", positionFile(path), err)
	}
	if r.Version != 1 || r.Length < 0 {
		return record{}, fmt.Errorf("read position %s: version %d, length %d: not written by this version of feedctl; use another file", positionFile(path), r.Version, r.Length)
	}
	return r, nil
}

func (t *target) writeRecord(r record) error {
	r.Version = 1
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("write position: %w", err)
	}
	if err := t.fs.WriteFile(positionFile(t.path), append(data, '\n')); err != nil {
		return fmt.Errorf("write position: %w", err)
	}
	return nil
}

// Recover reads the position and truncates the data to the committed length.
func (t *target) Recover(context.Context) (feed.Position, error) {
	committed, err := readRecord(t.path)
	if errors.Is(err, fs.ErrNotExist) {
		return feed.Position{}, t.initialize()
	}
	if err != nil {
		return feed.Position{}, err
	}
	size, err := t.size()
	if err != nil {
		return feed.Position{}, err
	}
	if length := committed.Length; size < length {
		return feed.Position{}, fmt.Errorf("it has %d bytes, but %d were committed: it was truncated or replaced; put the old file back, or remove both it and %s to start over", size, length, positionFile(t.path))
	}
	if err := t.checkEnd(committed.Length); err != nil {
		return feed.Position{}, err
	}
	t.committed = committed
	return committed.Position, t.cutBack()
}

func (t *target) initialize() error {
	size, err := t.size()
	if err != nil {
		return err
	}
	if size > 0 {
		return fmt.Errorf("it has %d bytes but there is no %s: it was not written by feedctl, or its position was lost; use another file", size, positionFile(t.path))
	}
	return t.writeRecord(record{})
}

func (t *target) size() (int64, error) {
	info, err := t.file.Stat()
	if err != nil {
		return 0, err
	}
	if !info.Mode().IsRegular() {
		return 0, errors.New("it is not a regular file: use the sink - and a pipe")
	}
	return info.Size(), nil
}

// cutBack removes the bytes after the committed data.
func (t *target) cutBack() error {
	if err := t.file.Truncate(t.committed.Length); err != nil {
		return err
	}
	_, err := t.file.Seek(t.committed.Length, io.SeekStart)
	return err
}

// checkEnd checks that a line ends where the committed lines should end, before
// anything is removed.
func (t *target) checkEnd(length int64) error {
	if length == 0 {
		return nil
	}
	var last [1]byte
	if _, err := t.file.ReadAt(last[:], length-1); err != nil {
		return fmt.Errorf("read the last committed byte: %w", err)
	}
	if last[0] != '\n' {
		return fmt.Errorf("no line ends at byte %d, the length in %s: it was changed; put the old file back, or remove both to start over", length, positionFile(t.path))
	}
	return nil
}
