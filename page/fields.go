package page

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// A fieldParser parses the headers of the parts of a page. Most parts have the same field names as
// the part before, and many of the same values, so lines that have not changed are not examined
// again.
type fieldParser struct {
	// The following fields describe the header that was parsed last, which must not have moved or
	// changed since.
	header Header
	lines  []line // the lines of the header's fields
	block  []byte // all lines
	length int64  // contentLength(header)
}

// A line describes the line of a field by the offsets of its colon and of the next line.
type line struct{ colon, next int }

// forget makes the next call of parse ignore the header that was parsed last.
func (p *fieldParser) forget() {
	clear(p.header)
	p.header, p.lines, p.block, p.length = p.header[:0], p.lines[:0], nil, noLength
}

// parse parses the header at the start of data, up to the blank line that ends it. It returns the
// lengths of the header block and of the blank line. If ok is false, length is the offset of a line
// that is malformed, folded or incomplete, or that contains an invalid control character. The
// header is valid until the next call. Its fields may point into headers that were parsed earlier,
// back to the last call of forget.
func (p *fieldParser) parse(data []byte) (_ Header, length, blank int, ok bool) {
	last, known := p.block, len(p.lines) // last begins with line i of the previous header
	at, resized := 0, false              // resized: Content-Length may have changed
	for i := 0; ; i++ {
		rest, colon, named := data[at:], 0, false // named: the line has a different name
		if i < known {
			l := &p.lines[i]
			if bytes.HasPrefix(rest, last[:l.next]) {
				at, last = at+l.next, last[l.next:]
				continue
			}
			if bytes.HasPrefix(rest, last[:l.colon+1]) {
				colon = l.colon
			}
			last = last[l.next:]
		}
		if colon == 0 {
			if blank = lineBreak(rest); blank > 0 {
				p.header, p.lines, p.block = p.header[:i], p.lines[:i], data[:at]
				if resized || i != known {
					p.length = contentLength(p.header)
				}
				return p.header, at, blank, true
			}
			colon = tokenLength(rest)
			if colon == 0 || colon == len(rest) || rest[colon] != ':' {
				break
			}
			named = true
		}
		end, next := lineEnd(rest, colon+1)
		if next == 0 {
			break
		}
		if i == len(p.lines) {
			p.header, p.lines = append(p.header, Field{}), append(p.lines, line{})
		}
		if named {
			p.header[i].Name = rest[:colon:colon]
		}
		p.header[i].Value = trimSpace(rest[colon+1 : end : end])
		p.lines[i] = line{colon, next}
		resized = resized || named || colon == len("Content-Length")
		at += next
	}
	p.forget()
	return nil, at, 0, false
}

// load returns the first eight bytes of b, the first one in the lowest bits.
func load(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

// lineBreak returns the length of the line break at the start of b, or 0.
func lineBreak(b []byte) int {
	switch {
	case len(b) >= 1 && b[0] == '\n':
		return 1
	case len(b) >= 2 && b[0] == '\r' && b[1] == '\n':
		return 2
	}
	return 0
}

// lineEnd searches b, starting at index from, for the end of the line, and returns the indexes of
// the line break and of the next line. If the line is incomplete, or contains NUL or a bare CR,
// next is 0.
func lineEnd(b []byte, from int) (end, next int) {
	for i := from; ; i++ {
		i += plainLength(b[i:])
		if n := lineBreak(b[i:]); n > 0 {
			return i, i + n
		}
		if i == len(b) || b[i] == 0 || b[i] == '\r' {
			return 0, 0
		}
	}
}

// plainLength returns the number of bytes in b before the first byte that is less than a space.
func plainLength(b []byte) int {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; i+8 <= len(b); i += 8 {
		x := load(b[i:])
		// The subtraction sets the highest bit of each byte that is less than a space. It may also
		// set the highest bits of bytes after such a byte, but only the first such byte counts.
		if low := (x - ' '*ones) &^ x & high; low != 0 {
			return i + bits.TrailingZeros64(low)/8
		}
	}
	for i < len(b) && b[i] >= ' ' {
		i++
	}
	return i
}
