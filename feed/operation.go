package feed

import (
	"fmt"
	"strings"
)

// An Operation is what an entity does to its key: the value of the Operation-Type header
// without "http-equiv=".
type Operation string

// These are the operations of the specification (section "Operation-Type").
const (
	Put    Operation = "PUT"
	Patch  Operation = "PATCH"
	Delete Operation = "DELETE"
)

// operationPrefix precedes the operation in an Operation-Type header.
const operationPrefix = "http-equiv="

// ParseOperation parses the value of an Operation-Type header. It ignores case, and
// "http-equiv=" may be missing. The error is a [*HeaderError].
func ParseOperation(value string) (Operation, error) {
	if o, ok := parseOperation(value); ok {
		return o, nil
	}
	return "", &HeaderError{Part: -1, Name: operationType, Value: value, Err: errOperation()}
}

func parseOperation[T string | []byte](value T) (Operation, bool) {
	if len(value) > len(operationPrefix) && foldEqual(value[:len(operationPrefix)], operationPrefix) {
		value = value[len(operationPrefix):]
	}
	for _, o := range [...]Operation{Put, Patch, Delete} {
		if foldEqual(value, string(o)) {
			return o, true
		}
	}
	return "", false
}

func errOperation() error {
	return fmt.Errorf("%w: not one of http-equiv=PUT, http-equiv=PATCH, http-equiv=DELETE", ErrInvalidHeader)
}

// HeaderValue returns the value of the Operation-Type header for o, such as
// "http-equiv=PUT".
func (o Operation) HeaderValue() string { return operationPrefix + string(o) }

// foldEqual reports whether two ASCII strings are equal under case folding. It does
// not allocate.
func foldEqual[T string | []byte](a T, b string) bool {
	if len(a) != len(b) {
		return false
	}
	if string(a) == b {
		return true
	}
	for i := range len(b) {
		if lower(a[i]) != lower(b[i]) {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + ('a' - 'A')
	}
	return c
}

// trim removes the white space around a header value (RFC 9110, section 5.5).
func trim(s string) string { return strings.Trim(s, " \t") }
