package page

import (
	"bytes"
	"math"
)

// Get returns the value of the first field with the given case-insensitive name.
// It is nil only if there is no such field.
func (h Header) Get(name string) []byte {
	for _, f := range h {
		if equalFold(f.Name, name) {
			return f.Value
		}
	}
	return nil
}

// equalFold reports whether a and b are equal under ASCII case folding.
func equalFold(a []byte, b string) bool {
	if len(a) != len(b) {
		return false
	}
	if string(a) == b {
		return true
	}
	for i, c := range a {
		if c != b[i] && lower(c) != lower(b[i]) {
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

// isToken reports whether name is a token (RFC 9110, section 5.6.2), as a field
// name must be.
func isToken(name []byte) bool {
	return len(name) > 0 && tokenLength(name) == len(name)
}

// tokenLength returns the length of the token at the start of b.
func tokenLength(b []byte) int {
	for i, c := range b {
		if letter := c | 0x20; letter < 'a' || 'z' < letter {
			if !isTokenMark(c) {
				return i
			}
		}
	}
	return len(b)
}

// isTokenMark reports whether c is a token character other than a letter.
func isTokenMark(c byte) bool {
	// One bit for each ASCII character.
	const (
		low  = 0x03ff_6cfa_0000_0000 // ! # $ % & ' * + - . 0-9
		high = 0x5000_0001_c000_0000 // ^ _ ` | ~
	)
	if c < 64 {
		return low>>c&1 != 0
	}
	return c < 128 && high>>(c-64)&1 != 0
}

// badControl returns the index of the first NUL or bare CR in a header block, or -1
// if there is none.
func badControl(block []byte) int {
	for i, c := range block {
		if c == 0 || c == '\r' && block[i+1] != '\n' {
			return i
		}
	}
	return -1
}

// unfold joins the folded lines of a header block in place: a line break and the
// white space around it become one space (RFC 9112, section 5.2). The joined line is
// padded with spaces, so that the offsets of other lines do not change.
func unfold(block []byte) {
	end, fill := 0, 0 // where the text of the previous line ends, and where the padding after it ends
	for at := 0; at < len(block); {
		next := at + bytes.IndexByte(block[at:], '\n') + 1
		text := bytes.TrimRight(block[at:next], " \t\r\n")
		if isSpace(block[at]) {
			if text = trimSpace(text); len(text) > 0 {
				block[end] = ' '
				end += 1 + copy(block[end+1:], text)
			}
			fill = at + len(bytes.TrimRight(block[at:next], "\r\n"))
		} else {
			fillSpace(block, end, fill)
			end, fill = at+len(text), 0
		}
		at = next
	}
	fillSpace(block, end, fill)
}

func fillSpace(block []byte, from, to int) {
	for i := from; i < to; i++ {
		block[i] = ' '
	}
}

// Results of contentLength that are not lengths.
const (
	noLength  = -1 // the field is missing
	badLength = -2 // the field is invalid, too large or contradictory
)

// contentLength returns the value of Content-Length, or noLength or badLength. The
// field may be repeated with the same value (RFC 9110, section 8.6).
func contentLength(h Header) int64 {
	const name = "Content-Length"
	length := int64(noLength)
	for i := range h {
		if len(h[i].Name) != len(name) || lower(h[i].Name[0]) != 'c' || !equalFold(h[i].Name, name) {
			continue
		}
		n := parseLength(h[i].Value)
		if n == badLength || length != noLength && n != length {
			return badLength
		}
		length = n
	}
	return length
}

func parseLength(digits []byte) int64 {
	if len(digits) == 0 {
		return badLength
	}
	n := int64(0)
	for _, c := range digits {
		if c < '0' || c > '9' || n > (math.MaxInt64-9)/10 {
			return badLength
		}
		n = 10*n + int64(c-'0')
	}
	return n
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' }

// trimSpace removes leading and trailing white space (OWS in RFC 9110).
func trimSpace(b []byte) []byte {
	for len(b) > 0 && isSpace(b[0]) {
		b = b[1:]
	}
	for len(b) > 0 && isSpace(b[len(b)-1]) {
		b = b[:len(b)-1]
	}
	return b
}
