package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/feedctl/feedctl/feed"
	"github.com/feedctl/feedctl/internal/regular"
)

// A resumeFile remembers how much of an input was published. It is written
// after the entities are durable, so it may be behind, never ahead: entities
// that it does not know of are sent again and recognized by their Content-ID.
type resumeFile struct {
	path string
	// Feed is where the input was published: the URL of the feed, or what it is
	// called in its store. Empty in a file of an earlier version.
	Feed string `json:"feed,omitempty"`
	// Published is the number of entities of the input that are in the feed.
	Published int64 `json:"published"`
	// Last is the SHA-256 of the body of the last of them, by which another input is
	// told from this one. Empty if it was a stream, and in a file of an earlier version.
	Last string `json:"last,omitempty"`
}

// openResumeFile reads the file for a feed; one that does not exist stands for the
// start of the input.
func openResumeFile(path, feedName string) (*resumeFile, error) {
	r := &resumeFile{path: path}
	data, err := regular.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r.Feed = feedName
		return r, nil
	case err != nil:
		return nil, fmt.Errorf("read resume file: %w", err)
	}
	if err := json.Unmarshal(data, r); err != nil || r.Published < 0 {
		return nil, fmt.Errorf("read resume file %s: it is not one: %.80q", path, data)
	}
	if r.Feed != "" && r.Feed != feedName {
		return nil, r.refuse("it tells how far an input was published to %s, and this is %s", r.Feed, feedName)
	}
	r.Feed = feedName
	return r, nil
}

// check compares an entity that is to be passed over with what was published: n of
// the input, from 1.
func (r *resumeFile) check(n int64, e *feed.Entity) error {
	if n < r.Published || r.Last == "" || digest(e) == r.Last {
		return nil
	}
	return r.refuse("entity %d of the input is not the one that was published then", n)
}

// checkEnd tells of an input that ends after n entities, before what was published.
func (r *resumeFile) checkEnd(n int64) error {
	if n >= r.Published {
		return nil
	}
	return r.refuse("it says that %s of the input were published, and there are only %s",
		plural(r.Published, "entity", "entities"), formatCount(n))
}

// refuse returns the error of a file that is not about this feed and input.
func (r *resumeFile) refuse(format string, args ...any) error {
	return &usageError{&hinted{
		err:  fmt.Errorf("--resume %s: %w: nothing is published", r.path, fmt.Errorf(format, args...)),
		hint: "another file for --resume, each feed and input has its own, or without this one, to begin at the start of the input",
	}}
}

// save replaces the file: so many were published, and last was the last of them.
func (r *resumeFile) save(published int64, last *feed.Entity) error {
	r.Published, r.Last = published, digest(last)
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("write resume file: %w", err)
	}
	return writeFile(r.path, append(data, '\n'))
}

// digest returns the SHA-256 of the body of an entity; empty of a stream.
func digest(e *feed.Entity) string {
	if e.Stream != nil {
		return ""
	}
	sum := sha256.Sum256(e.Body)
	return hex.EncodeToString(sum[:])
}
