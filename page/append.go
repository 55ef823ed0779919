package page

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
)

// AppendPart appends a part to dst, which is a page without its closing delimiter,
// or empty. The fields of the part are those of h in their order, without
// Content-Length, followed by the actual Content-Length.
//
// The error matches [ErrBoundary] if boundary is invalid (RFC 2046, section 5.1.1),
// [ErrBoundaryInBody] if it occurs in body (start another page with another
// boundary), or [ErrInvalidFieldText] if a field name is not a token or a value
// contains CR, LF or NUL. On error, dst is returned unchanged.
func AppendPart(dst []byte, boundary string, h Header, body []byte) ([]byte, error) {
	out, err := appendHeader(dst, boundary, h, int64(len(body)))
	if err == nil && Occurs(boundary, body) {
		err = ErrBoundaryInBody
	}
	if err != nil {
		return dst, fmt.Errorf("write part: %w", err)
	}
	out = slices.Grow(out, len(body)+len("\r\n"))
	out = append(out, body...)
	return append(out, "\r\n"...), nil
}

// AppendPartHeader appends the delimiter line and the header of a part with a body
// of size bytes, as [AppendPart] does. The caller then writes the body, in which
// the boundary must not occur (see [Occurs]), and CRLF.
func AppendPartHeader(dst []byte, boundary string, h Header, size int64) ([]byte, error) {
	out, err := appendHeader(dst, boundary, h, size)
	if err != nil {
		return dst, fmt.Errorf("write part: %w", err)
	}
	return out, nil
}

func appendHeader(dst []byte, boundary string, h Header, size int64) ([]byte, error) {
	if !writable(boundary) {
		return nil, fmt.Errorf("%w: %q", ErrBoundary, boundary)
	}
	if size < 0 {
		return nil, fmt.Errorf("%w: negative size %d", ErrContentLength, size)
	}
	out := append(dst, "--"...)
	out = append(out, boundary...)
	delimiter := out[len(dst):]
	out = append(out, "\r\n"...)
	for _, f := range h {
		if err := checkField(f); err != nil {
			return nil, err
		}
		if equalFold(f.Name, "Content-Length") {
			continue
		}
		line := len(out)
		out = append(out, f.Name...)
		out = append(out, ": "...)
		out = append(out, f.Value...)
		if bytes.HasPrefix(out[line:], delimiter) {
			return nil, fmt.Errorf("%w: %s: would be read as a delimiter", ErrInvalidFieldText, f.Name)
		}
		out = append(out, "\r\n"...)
	}
	out = append(out, "Content-Length: "...)
	out = strconv.AppendInt(out, size, 10)
	return append(out, "\r\n\r\n"...), nil
}

// AppendClose appends the closing delimiter to a page, which must have at least one
// part.
func AppendClose(dst []byte, boundary string) []byte {
	dst = append(dst, "--"...)
	dst = append(dst, boundary...)
	return append(dst, "--\r\n"...)
}

func checkField(f Field) error {
	if !isToken(f.Name) {
		return fmt.Errorf("%w: name %q", ErrInvalidFieldText, f.Name)
	}
	if !isValue(f.Value) {
		return fmt.Errorf("%w: value of %s: %q", ErrInvalidFieldText, f.Name, f.Value)
	}
	return nil
}

// isValue reports whether a field value is free of CR, LF and NUL.
func isValue(value []byte) bool {
	for _, c := range value {
		if c <= '\r' && (c == '\r' || c == '\n' || c == 0) {
			return false
		}
	}
	return true
}
