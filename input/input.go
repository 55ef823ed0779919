// Package input reads entities from an input for publishing: one document with
// its headers, a multipart document, lines of JSON, or a directory of files. It
// holds only one entity at a time, so inputs can have any size.
//
// Only the parts of a multipart document may have a Last-Modified. It is used in a snapshot; in a feed, the
// producer sets its own. If an entity has no Content-ID, the producer generates one, so publishing the same
// input again publishes the entity twice.
//
// An entity remains valid after the next one is read, unless it has a Stream.
package input

import (
	"errors"
	"fmt"
	"strings"

	"github.com/feedctl/feedctl/feed"
)

// ErrInvalid is matched by errors that are due to invalid input, as opposed to read errors.
var ErrInvalid = errors.New("invalid input")

// An Error means that an entity could not be read from the input. The entities before it have been yielded.
type Error struct {
	// Where is "line 12", "part 3" or "file a/b.json"; lines count from 1, parts
	// from 0. It is empty if there is only one entity.
	Where string
	Err   error
}

func (e *Error) Error() string {
	if e.Where == "" {
		return fmt.Sprintf("read entity: %v", e.Err)
	}
	return fmt.Sprintf("read entity: %s: %v", e.Where, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// invalid returns an error that matches ErrInvalid and err.
func invalid(err error) error { return fmt.Errorf("%w: %w", ErrInvalid, err) }

// setField sets one header field of an entity. It ignores Content-Length, which
// the producer sets.
func setField(e *feed.Entity, name, value string) error {
	var member *string
	switch strings.ToLower(name) {
	case "content-length":
		return nil
	case "last-modified":
		if !e.LastModified.IsZero() {
			return invalid(fmt.Errorf("header %s occurs twice", name))
		}
		t, err := feed.ParseTime(value)
		if err != nil {
			return invalid(err)
		}
		e.LastModified = t
		return nil
	case "operation-type":
		operation, err := feed.ParseOperation(value)
		if err == nil && e.Operation != "" {
			err = fmt.Errorf("header %s occurs twice", name)
		}
		if err != nil {
			return invalid(err)
		}
		e.Operation = operation
		return nil
	case "content-type":
		member = &e.ContentType
	case "content-id":
		member = &e.ContentID
	case "content-location":
		member = &e.ContentLocation
	default:
		e.Header = append(e.Header, feed.Field{Name: name, Value: value})
		return nil
	}
	if *member != "" {
		return invalid(fmt.Errorf("header %s occurs twice", name))
	}
	*member = value
	return nil
}

// complete sets defaults. It also makes the checks that the producer would make, since an error found here
// can name the place in the input.
func complete(e *feed.Entity) error {
	if e.Operation == "" {
		e.Operation = feed.Put
	}
	if err := e.Check(true); err != nil {
		return invalid(err)
	}
	return nil
}
