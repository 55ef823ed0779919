package verify

import "bytes"

// A lineSearch finds the first line of a body that begins with a page's delimiter. The body is
// written to the lineSearch in pieces.
type lineSearch struct {
	pattern []byte // LF and the delimiter
	found   int64  // offset of the line, in bytes; -1 if there is none

	size int64  // of the body so far
	tail []byte // the end of the body so far, shorter than the pattern
}

// reset begins the search in a new body, whose first byte begins a line.
func (s *lineSearch) reset() {
	s.found, s.size, s.tail = -1, 0, append(s.tail[:0], '\n')
}

// Write searches b, including lines that began in earlier writes.
func (s *lineSearch) Write(b []byte) (int, error) {
	start := s.size
	s.size += int64(len(b))
	if s.found >= 0 {
		return len(b), nil
	}
	// Search across the border between the tail and b, then in b alone.
	border := append(s.tail, b[:min(len(b), len(s.pattern)-1)]...)
	if i := bytes.Index(border, s.pattern); i >= 0 {
		s.found = start - int64(len(s.tail)) + int64(i) + 1
		return len(b), nil
	}
	if i := bytes.Index(b, s.pattern); i >= 0 {
		s.found = start + int64(i) + 1
		return len(b), nil
	}
	end := border
	if len(b) >= len(s.pattern) {
		end = b
	}
	s.tail = append(s.tail[:0], end[max(0, len(end)-len(s.pattern)+1):]...)
	return len(b), nil
}
