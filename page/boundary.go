package page

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"strings"
	"unicode"

	"github.com/feedctl/feedctl/internal/httpfield"
)

const (
	maxBoundary         = 70  // when writing (RFC 2046, section 5.1.1)
	maxReadableBoundary = 256 // when reading
)

// NewBoundary returns a random boundary with 130 bits of entropy.
func NewBoundary() string { return rand.Text() }

// ContentType returns the media type of a page with this boundary.
func ContentType(boundary string) string {
	return `multipart/mixed; boundary="` + boundary + `"`
}

// Occurs reports whether "--" followed by the boundary occurs in body. If it does, body cannot be
// a part of a page with this boundary.
func Occurs(boundary string, body []byte) bool {
	// This is enough for every writable boundary, so pattern stays on the stack.
	pattern := append(make([]byte, 0, len("--")+maxBoundary), "--"...)
	return bytes.Contains(body, append(pattern, boundary...))
}

// Boundary returns the boundary of a page from its Content-Type. It accepts any subtype of
// multipart, and a boundary with or without quotes: quotes that are required may be missing, and
// quotes may be typographic or not closed. Trailing white space is removed. The error matches
// [ErrNotMultipart], or [ErrBoundary] if the boundary is missing, contradictory or longer than
// 256 bytes, or contains control characters.
func Boundary(contentType string) (string, error) {
	mediaType, params, _ := strings.Cut(contentType, ";")
	kind, subtype, _ := strings.Cut(strings.TrimSpace(mediaType), "/")
	if !strings.EqualFold(kind, "multipart") || subtype == "" {
		return "", fmt.Errorf("%w: %q", ErrNotMultipart, contentType)
	}
	boundary := ""
	for params != "" {
		var name, value string
		name, value, params = cutParam(params)
		if !strings.EqualFold(name, "boundary") {
			continue
		}
		value = strings.TrimRightFunc(value, unicode.IsSpace)
		if !readable(value) || boundary != "" && boundary != value {
			return "", fmt.Errorf("%w in %q", ErrBoundary, contentType)
		}
		boundary = value
	}
	if boundary == "" {
		return "", fmt.Errorf("%w: missing in %q", ErrBoundary, contentType)
	}
	return boundary, nil
}

// cutParam returns the first parameter in s, and the rest of s after the parameter's semicolon.
func cutParam(s string) (name, value, rest string) {
	end := strings.IndexAny(s, ";=")
	if end < 0 || s[end] == ';' {
		param, rest, _ := strings.Cut(s, ";")
		return strings.TrimSpace(param), "", rest
	}
	name = strings.TrimSpace(s[:end])
	s = strings.TrimLeftFunc(s[end+1:], unicode.IsSpace)
	switch {
	case strings.HasPrefix(s, `"`):
		value, s = httpfield.CutQuoted(s[1:])
		_, rest, _ = strings.Cut(s, ";")
	case strings.HasPrefix(s, "“"), strings.HasPrefix(s, "”"), strings.HasPrefix(s, "„"):
		s = s[len("“"):]
		value = s
		if i := strings.IndexAny(s, "“”"); i >= 0 {
			value, s = s[:i], s[i:]
		} else {
			s = ""
		}
		_, rest, _ = strings.Cut(s, ";")
	default:
		value, rest, _ = strings.Cut(s, ";")
	}
	return name, value, rest
}

// readable reports whether a page with this boundary can be read. It accepts more boundaries than
// writable, since other writers do not always follow RFC 2046.
func readable(boundary string) bool {
	for i := range len(boundary) {
		if c := boundary[i]; c < ' ' || c == 0x7f {
			return false
		}
	}
	return 0 < len(boundary) && len(boundary) <= maxReadableBoundary
}

// writable reports whether boundary conforms to RFC 2046, section 5.1.1.
func writable(boundary string) bool {
	for i := range len(boundary) {
		if !isBoundaryChar(boundary[i]) {
			return false
		}
	}
	return 0 < len(boundary) && len(boundary) <= maxBoundary && !strings.HasSuffix(boundary, " ")
}

func isBoundaryChar(c byte) bool {
	switch {
	case 'a' <= c|0x20 && c|0x20 <= 'z', '0' <= c && c <= '9':
		return true
	}
	return strings.IndexByte("'()+_,-./:=? ", c) >= 0
}
