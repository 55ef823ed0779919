package represent

import (
	"fmt"
	"strings"
)

// A span is a part of a representation, in bytes.
type span struct {
	offset, length int64
	partial        bool // a Range was requested
}

// contentRange returns the value of Content-Range.
func (s span) contentRange(size int64) string {
	return fmt.Sprintf("bytes %d-%d/%d", s.offset, s.offset+s.length-1, size)
}

// reaches reports whether the part ends at the end of a representation of size bytes.
func (s span) reaches(size int64) bool { return s.offset+s.length == size }

// parseRange parses a Range header (RFC 9110, section 14.2) for a representation
// of size bytes. It returns the whole for anything but one well-formed range of
// bytes, since a server may ignore Range. ok is false if the range is beyond the end.
func parseRange(header string, size int64) (_ span, ok bool) {
	whole := span{length: size}
	unit, set, found := strings.Cut(header, "=")
	if !found || !strings.EqualFold(strings.TrimSpace(unit), "bytes") || strings.Contains(set, ",") {
		return whole, true
	}
	first, last, found := strings.Cut(strings.TrimSpace(set), "-")
	if !found {
		return whole, true
	}
	from, hasFrom := parseOffset(first)
	to, hasTo := parseOffset(last)
	switch {
	case !hasFrom && first != "" || !hasTo && last != "" || !hasFrom && !hasTo || hasFrom && hasTo && to < from:
		return whole, true
	case !hasFrom: // the last bytes
		if to == 0 || size == 0 {
			return whole, false
		}
		to = min(to, size)
		return span{offset: size - to, length: to, partial: true}, true
	case from >= size:
		return whole, false
	case !hasTo || to >= size:
		to = size - 1
	}
	return span{offset: from, length: to - from + 1, partial: true}, true
}

// parseOffset parses a decimal number. It caps larger numbers at a value that is beyond every size.
func parseOffset(digits string) (n int64, ok bool) {
	const beyond = 1 << 55
	for _, c := range []byte(digits) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = min(n*10+int64(c-'0'), beyond)
	}
	return n, digits != ""
}
