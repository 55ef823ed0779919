package publish

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

// A State records in a file how much of an input has been published. The file is written after the
// entities are durable, so it may lag behind but is never ahead: entities that it does not count
// yet are sent again, and recognized by their Content-IDs.
type State struct {
	path string
	// Feed identifies the feed to which the input was published: it is the URL of the feed, or the
	// name of the feed in its store. It is empty in a file written by an earlier version.
	Feed string `json:"feed,omitempty"`
	// Published is the number of entities of the input that are in the feed.
	Published int64 `json:"published"`
	// Last is the SHA-256, in hex, of the body of the last of these entities. It is used to detect
	// that the input is a different one. It is empty if the body was a stream, and in a file
	// written by an earlier version.
	Last string `json:"last,omitempty"`
}

// A StateError is the error for a [State] that belongs to another feed or input. Nothing was
// published. Each feed and input needs its own file.
type StateError struct {
	Path string
	Err  error
}

// Error returns the path of the file and the cause.
func (e *StateError) Error() string {
	return fmt.Sprintf("%s: %v: nothing is published", e.Path, e.Err)
}

// Unwrap returns the cause.
func (e *StateError) Unwrap() error { return e.Err }

// OpenState reads the state of publishing to a feed from the file at path. If the file does not
// exist, the State is at the start of the input.
func OpenState(path, feedName string) (*State, error) {
	s := &State{path: path}
	data, err := regular.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.Feed = feedName
		return s, nil
	case err != nil:
		return nil, fmt.Errorf("read resume file: %w", err)
	}
	if err := json.Unmarshal(data, s); err != nil || s.Published < 0 {
		return nil, fmt.Errorf("read resume file %s: not a resume file: %.80q", path, data)
	}
	if s.Feed != "" && s.Feed != feedName {
		return nil, s.refuse("it belongs to feed %s, not %s", s.Feed, feedName)
	}
	s.Feed = feedName
	return s, nil
}

// check compares entity n of the input, which is to be skipped, with the State. The first entity is
// number 1.
func (s *State) check(n int64, e *feed.Entity) error {
	if n < s.Published || s.Last == "" || digest(e) == s.Last {
		return nil
	}
	return s.refuse("entity %d of the input is not the one that was published before", n)
}

// checkEnd returns an error if the input ends after n entities, although more than n entities were
// published.
func (s *State) checkEnd(n, published int64) error {
	if n >= published {
		return nil
	}
	return s.refuse("it says that %d entities of the input were published, but the input has only %d", published, n)
}

func (s *State) refuse(format string, args ...any) error {
	return &StateError{s.path, fmt.Errorf(format, args...)}
}

// save replaces the file. The parameter published is the number of entities of the input that are
// in the feed, and last is the last of them.
func (s *State) save(published int64, last *feed.Entity) error {
	s.Published, s.Last = published, digest(last)
	data, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("write resume file: %w", err)
	}
	return regular.WriteFile(s.path, append(data, '\n'))
}

// digest returns the SHA-256 of the body of an entity, or "" if the body is a stream.
func digest(e *feed.Entity) string {
	if e.Stream != nil {
		return ""
	}
	sum := sha256.Sum256(e.Body)
	return hex.EncodeToString(sum[:])
}
