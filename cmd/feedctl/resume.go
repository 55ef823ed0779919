package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// A resumeFile remembers how much of an input was published. It is written
// after the entities are durable, so it may be behind, never ahead: entities
// that it does not know of are sent again and recognized by their Content-ID.
type resumeFile struct {
	path string
	// Published is the number of entities of the input that are in the feed.
	Published int64 `json:"published"`
}

// openResumeFile reads the file; one that does not exist stands for the start
// of the input.
func openResumeFile(path string) (*resumeFile, error) {
	r := &resumeFile{path: path}
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return r, nil
	case err != nil:
		return nil, fmt.Errorf("read resume file: %w", err)
	}
	if err := json.Unmarshal(data, r); err != nil || r.Published < 0 {
		return nil, fmt.Errorf("read resume file %s: it is not one: %.80q", path, data)
	}
	return r, nil
}

// save replaces the file.
func (r *resumeFile) save(published int64) error {
	r.Published = published
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("write resume file: %w", err)
	}
	return writeFile(r.path, append(data, '\n'))
}
