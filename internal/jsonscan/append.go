package jsonscan

import (
	"math/bits"
	"unicode/utf8"
)

// AppendString appends s, which must be UTF-8, as a JSON string.
func AppendString[T string | []byte](dst []byte, s T) []byte {
	dst = append(dst, '"')
	for {
		n := plain(s)
		dst = append(dst, s[:n]...)
		if n == len(s) {
			return append(dst, '"')
		}
		dst = appendEscape(dst, s[n])
		s = s[n+1:]
	}
}

// AppendText appends s as a JSON string. Bytes that are not UTF-8 are interpreted as ISO-8859-1,
// the former encoding of header fields (RFC 9110, section 5.5).
func AppendText(dst []byte, s string) []byte {
	if utf8.ValidString(s) {
		return AppendString(dst, s)
	}
	latin := make([]byte, 0, 2*len(s))
	for i := range len(s) {
		latin = utf8.AppendRune(latin, rune(s[i]))
	}
	return AppendString(dst, latin)
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	const hex = "0123456789abcdef"
	return append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
}

// plain returns the length of the longest prefix of s that can be in a JSON string without escapes.
func plain[T string | []byte](s T) int {
	i := 0
	for ; i+8 <= len(s); i += 8 {
		if found := special(load(s, i)); found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for i < len(s) && s[i] >= ' ' && s[i] != '"' && s[i] != '\\' {
		i++
	}
	return i
}

// special returns 0 if none of the eight bytes of x is a quote, a backslash or a control character.
// Otherwise, the lowest set bit of the result is in the first such byte.
func special(x uint64) uint64 {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	// Each subtraction sets the highest bit of a matching byte by borrowing. Bytes in which that
	// bit is set in x are not ASCII, and are masked out.
	quote, backslash := x^'"'*ones, x^'\\'*ones
	return ((x - ' '*ones) | (quote - ones) | (backslash - ones)) &^ x & high
}

// load returns eight bytes of s, starting at i. The compiler turns the expression into a single
// load.
func load[T string | []byte](s T, i int) uint64 {
	s = s[i : i+8]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}
