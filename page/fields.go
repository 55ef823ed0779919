package page

import (
	"encoding/binary"
	"math/bits"
)

// A fieldParser parses the headers of the parts of a page. Most parts have the same field names
// and many of the same values as the part before, and what is the same need not be checked again.
type fieldParser struct {
	// Of the header that was parsed last, which must not have moved or changed since; none if
	// block is nil.
	header Header
	block  []byte // the header block and the blank line
	ends   []int  // the end of each field's line in block
}

// forget makes the next header be parsed without the last one.
func (p *fieldParser) forget() {
	clear(p.header)
	p.header, p.block, p.ends = p.header[:0], nil, p.ends[:0]
}

// parse parses the header at the start of data, up to the blank line that ends it. It returns
// the length of the header block and of the blank line. If ok is false, length is the offset
// of a line that is malformed, folded or incomplete, or that contains an invalid control
// character. The header is valid until the next call. Its fields may point into the headers
// parsed before, back to the last call of forget.
func (p *fieldParser) parse(data []byte) (_ Header, length, blank int, ok bool) {
	last, start, known := p.block, 0, len(p.ends) // start is that of the line in last
	at := 0
	for i := 0; ; i++ {
		same := 0 // length of what the lines, and those after them, have in common
		if i < known {
			same = common(data[at:], last[start:])
			for shift := at - start; i < known && p.ends[i]-start <= same; i++ {
				same -= p.ends[i] - start
				start = p.ends[i]
				at = start + shift
				p.ends[i] = at
			}
		}
		line := data[at:]
		if blank = lineBreak(line); blank > 0 {
			p.header, p.ends, p.block = p.header[:i], p.ends[:i], data[:at+blank]
			return p.header, at, blank, true
		}
		if i == len(p.header) {
			p.header, p.ends = append(p.header, Field{}), append(p.ends, 0)
		}
		f := &p.header[i]
		colon, from := 0, 0 // from is where to look for the end of the line
		if i < known && same > len(f.Name) {
			colon = len(f.Name)
			from = min(same, p.ends[i]-start-len("\r\n"))
		} else {
			colon = tokenLength(line)
			if colon == 0 || colon == len(line) || line[colon] != ':' {
				break
			}
		}
		end, next := lineEnd(line, max(from, colon+1))
		if next == 0 {
			break
		}
		if i < known {
			start = p.ends[i]
		}
		f.Name, f.Value = line[:colon:colon], trimSpace(line[colon+1:end:end])
		at += next
		p.ends[i] = at
	}
	p.forget()
	return nil, at, 0, false
}

// common returns the length of the longest common prefix of a and b.
func common(a, b []byte) int {
	n := min(len(a), len(b))
	a, b = a[:n], b[:n]
	i := 0
	for ; i <= n-16; i += 16 {
		x, y := a[i:i+16], b[i:i+16]
		if (load(x)^load(y))|(load(x[8:])^load(y[8:])) != 0 {
			break
		}
	}
	for ; i <= n-8; i += 8 {
		if x := load(a[i:]) ^ load(b[i:]); x != 0 {
			return i + bits.TrailingZeros64(x)/8
		}
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
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

// lineEnd searches b from from on for the end of the line, and returns the indexes of its
// line break and of the next line. If the line is incomplete, or contains NUL or a bare CR,
// next is 0.
func lineEnd(b []byte, from int) (end, next int) {
	for i := from; i < len(b); i++ {
		if i += plainLength(b[i:]); i == len(b) {
			break
		}
		switch b[i] {
		case '\n', '\r':
			if n := lineBreak(b[i:]); n > 0 {
				return i, i + n
			}
			return 0, 0
		case 0:
			return 0, 0
		}
	}
	return 0, 0
}

// plainLength returns the number of bytes in b before the first control character of those
// below the space.
func plainLength(b []byte) int {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; i+8 <= len(b); i += 8 {
		x := load(b[i:])
		// The difference borrows into the highest bit of each byte below the space. Bytes
		// after one of these may get it too, but the first is right.
		if low := (x - ' '*ones) &^ x & high; low != 0 {
			return i + bits.TrailingZeros64(low)/8
		}
	}
	for i < len(b) && b[i] >= ' ' {
		i++
	}
	return i
}
