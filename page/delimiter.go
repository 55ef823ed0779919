package page

import (
	"bytes"
	"strings"
)

// maxPadding is the maximum size, in bytes, of the white space after a delimiter on its line. A
// line with more white space is not a delimiter line, so the memory needed to recognize one is
// bounded.
const maxPadding = 1024

// A delimiter describes a delimiter line: "--", the boundary, "--" in the closing delimiter, white
// space, and a line break (RFC 2046, section 5.1.1).
type delimiter struct {
	length  int // in bytes, including its line break
	closing bool
	crlf    bool // its line break is CRLF, not LF
}

// A verdict is the result of looking for a delimiter line.
type verdict int

const (
	absent verdict = iota
	present
	undecided // more bytes are needed
)

// A matcher recognizes the delimiter lines of a page.
type matcher struct {
	usual   []byte // "\r\n--" boundary "\r\n", which ends most parts
	pattern []byte // "\n--" boundary
	colon   bool   // the boundary contains a colon
}

func (m *matcher) reset(boundary string) {
	m.usual = append(append(append(m.usual[:0], "\r\n--"...), boundary...), "\r\n"...)
	m.pattern = m.usual[len("\r") : len(m.usual)-len("\r\n")]
	m.colon = strings.Contains(boundary, ":")
}

// match reports whether data, which is at the start of a line, begins with a delimiter line. If
// ended is true, data is the end of the page, and a closing delimiter needs no line break. Any
// other delimiter needs one: without it, the delimiter may be the start of a longer line in a
// truncated body.
func (m *matcher) match(data []byte, ended bool) (delimiter, verdict) {
	dash := m.pattern[1:]
	if !bytes.HasPrefix(data, dash) {
		if !ended && bytes.HasPrefix(dash, data) {
			return delimiter{}, undecided
		}
		return delimiter{}, absent
	}
	var d delimiter
	rest := data[len(dash):]
	if bytes.HasPrefix(rest, []byte("--")) {
		d.closing = true
		rest = rest[2:]
	}
	rest = skipPadding(rest)
	d.length = len(data) - len(rest)
	switch {
	case len(rest) >= 1 && rest[0] == '\n':
		d.length++
		return d, present
	case len(rest) >= 2 && rest[0] == '\r' && rest[1] == '\n':
		d.length += 2
		d.crlf = true
		return d, present
	case len(rest) == 0, len(rest) == 1 && rest[0] == '\r':
		d.length = len(data)
	case len(rest) == 1 && rest[0] == '-' && d.length == len(dash):
		if ended {
			return delimiter{}, absent
		}
	default:
		return delimiter{}, absent
	}
	switch {
	case !ended:
		return delimiter{}, undecided
	case d.closing:
		return d, present
	default:
		return delimiter{}, absent
	}
}

func skipPadding(b []byte) []byte {
	n := 0
	for n < len(b) && n < maxPadding && (b[n] == ' ' || b[n] == '\t') {
		n++
	}
	return b[n:]
}

// search searches data for a line break followed by a delimiter line and returns the index of its
// LF. If there is no delimiter line, it returns the index from which to continue the search once
// data is longer.
func (m *matcher) search(data []byte, from int, ended bool) (int, delimiter, verdict) {
	for {
		i := bytes.Index(data[from:], m.pattern)
		if i < 0 {
			return max(from, len(data)-len(m.pattern)+1), delimiter{}, absent
		}
		from += i
		if d, v := m.match(data[from+1:], ended); v != absent {
			return from, d, v
		}
		from += len(m.pattern)
	}
}
