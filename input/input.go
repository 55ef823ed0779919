// Package input turns what a client hands over for publishing into entities:
// one document with its headers, a multipart document, lines of JSON, or a
// directory of files. It gives one entity at a time and holds one at a time, so
// the size of the whole does not matter.
//
// Only the parts of a multipart document may have a Last-Modified, which counts in
// a snapshot; in a feed the producer sets it. Entities may lack a
// Content-ID: the producer then makes one up, and publishing the same input
// again publishes it twice.
//
// An entity may be kept after the next was read, unless it has a Stream.
package input

import (
	"errors"
	"fmt"
	"strings"

	"github.com/feedctl/feedctl/feed"
)

// ErrInvalid is matched by errors that are the input's fault, as opposed to
// those of reading it.
var ErrInvalid = errors.New("invalid input")

// An Error says which entity could not be taken from the input, and why. The
// entities before it have been yielded.
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

// setField puts one header field where the model has it. Content-Length is
// dropped, as the producer writes its own.
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

// complete sets what has a default and checks what the producer would refuse,
// as here it is known where it stands.
func complete(e *feed.Entity) error {
	if e.Operation == "" {
		e.Operation = feed.Put
	}
	if err := e.Check(true); err != nil {
		return invalid(err)
	}
	return nil
}
