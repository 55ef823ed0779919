package feed

import (
	"errors"
	"fmt"
)

// These are the causes of a [HeaderError], to be matched with [errors.Is].
var (
	ErrMissingHeader = errors.New("required header is missing")
	ErrInvalidHeader = errors.New("header is invalid")
)

// A HeaderError describes a header field that is missing or invalid. Part counts
// from 0 and Offset is in bytes from the start of the page, as in [page.Part].
// Part is -1 if the header was not read from a part.
type HeaderError struct {
	Part   int
	Offset int64
	Name   string
	Value  string // as received; empty if the header is missing
	Err    error
}

func (e *HeaderError) Error() string {
	text := "header " + e.Name
	if e.Part >= 0 {
		text = fmt.Sprintf("read entity: part %d, offset %d: %s", e.Part, e.Offset, text)
	}
	if e.Value != "" {
		text += fmt.Sprintf(" %.100q", e.Value)
	}
	return text + ": " + e.Err.Error()
}

func (e *HeaderError) Unwrap() error { return e.Err }
