package jsonl

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/feedctl/feedctl/feed"
)

// A record is the content of the position file.
type record struct {
	// Version of this format: 1.
	Version int `json:"version"`
	// Length is the number of bytes of the data file that were committed.
	Length   int64         `json:"length"`
	Position feed.Position `json:"position"`
}

func positionFile(path string) string { return path + ".position" }

// readRecord returns an error that is [fs.ErrNotExist] if there is no position
// file.
func readRecord(path string) (record, error) {
	data, err := os.ReadFile(positionFile(path))
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

func (s *Sink) writeRecord(r record) error {
	r.Version = 1
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("write position: %w", err)
	}
	if err := s.fs.WriteFile(positionFile(s.path), append(data, '\n')); err != nil {
		return fmt.Errorf("write position: %w", err)
	}
	return nil
}

// recover reads the position and cuts the data back to it.
func (s *Sink) recover() error {
	info, err := s.file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("it is not a regular file: use the sink - and a pipe")
	}
	size := info.Size()
	s.committed, err = readRecord(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		if size > 0 {
			return fmt.Errorf("it has %d bytes but there is no %s: it was not written by feedctl, or its position was lost; use another file", size, positionFile(s.path))
		}
		return s.writeRecord(record{})
	}
	if err != nil {
		return err
	}
	length := s.committed.Length
	if size < length {
		return fmt.Errorf("it has %d bytes, but %d were committed: it was cut or replaced; put the old file back, or remove both it and %s to start over", size, length, positionFile(s.path))
	}
	if err := s.checkEnd(length); err != nil {
		return err
	}
	return s.cutBack()
}

// cutBack removes what is behind the committed data.
func (s *Sink) cutBack() error {
	if err := s.file.Truncate(s.committed.Length); err != nil {
		return err
	}
	_, err := s.file.Seek(s.committed.Length, io.SeekStart)
	return err
}

// checkEnd looks whether a line ends where the committed lines should end,
// before anything is cut.
func (s *Sink) checkEnd(length int64) error {
	if length == 0 {
		return nil
	}
	var last [1]byte
	if _, err := s.file.ReadAt(last[:], length-1); err != nil {
		return fmt.Errorf("read the last committed byte: %w", err)
	}
	if last[0] != '\n' {
		return fmt.Errorf("no line ends at byte %d, where %s says so: it was changed; put the old file back, or remove both to start over", length, positionFile(s.path))
	}
	return nil
}
