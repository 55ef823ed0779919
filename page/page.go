// Package page reads and writes pages: multipart documents (RFC 2046, section 5.1), in the
// form specified by datareplication.io.
package page

import (
	"errors"
	"fmt"
)

// A Field is one header field of a part. A field from a [Reader] points into the
// reader's buffer and is valid until the next part is read.
type Field struct {
	Name, Value []byte
}

// A Header is the header of a part: its fields in the order in which they were written.
type Header []Field

// Causes of an [Error], to be matched with [errors.Is].
var (
	ErrTruncated        = errors.New("page ends without its closing delimiter")
	ErrNoParts          = errors.New("page has no parts")
	ErrMalformedHeader  = errors.New("malformed header")
	ErrHeaderTooLarge   = errors.New("header block exceeds the limit")
	ErrPartTooLarge     = errors.New("part exceeds the limit")
	ErrContentLength    = errors.New("body length differs from Content-Length")
	ErrBoundary         = errors.New("invalid boundary")
	ErrBoundaryInBody   = errors.New("boundary occurs in a body")
	ErrNotMultipart     = errors.New("content type is not multipart")
	ErrInvalidFieldText = errors.New("header field contains a character that is not allowed")
)

// An Error describes why and where reading a page failed. Part counts from 0 and is
// -1 before the first part; Offset is in bytes from the start of the page.
type Error struct {
	Part   int
	Offset int64
	Err    error
}

func (e *Error) Error() string {
	return fmt.Sprintf("read page: part %d, offset %d: %v", e.Part, e.Offset, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }
