package jsontext

import (
	"bytes"
	"unicode/utf8"
)

// MaxDepth is the maximum nesting of arrays and objects in [AppendCompact].
const MaxDepth = 1024

// AppendCompact appends the JSON text src without the white space between its
// tokens. Nothing else is changed: numbers keep their digits, strings their
// escapes, members their order. If src is not one JSON value in UTF-8, or is
// nested deeper than [MaxDepth], it returns dst unchanged, and false.
func AppendCompact(dst, src []byte) ([]byte, bool) {
	if !utf8.Valid(src) {
		return dst, false
	}
	c := compactor{src: src, dst: dst}
	if !c.document() {
		return dst, false
	}
	return c.dst, true
}

type compactor struct {
	src, dst []byte
	pos      int // next byte
	copied   int // src up to here is in dst, or is white space
	depth    int
	objects  [MaxDepth / 64]uint64 // bit i: the container at depth i is an object
}

func (c *compactor) document() bool {
	for {
		if !c.value() {
			return false
		}
		// After a value, its containers may end.
		for {
			next, ok := c.peek()
			if c.depth == 0 {
				c.flush()
				return !ok
			}
			c.pos++
			if next == ',' {
				if c.inObject() && !c.name() {
					return false
				}
				break
			}
			if !ok || next != c.closer() {
				return false
			}
			c.depth--
		}
	}
}

// value reads a value, or the start of a container up to its first value. An
// empty container is a value.
func (c *compactor) value() bool {
	for {
		next, _ := c.peek()
		switch next {
		case '{', '[':
			c.pos++
			if c.depth == MaxDepth {
				return false
			}
			c.push(next == '{')
			if first, _ := c.peek(); first == c.closer() {
				c.pos++
				c.depth--
				return true
			}
			if next == '{' && !c.name() {
				return false
			}
		case '"':
			return c.string()
		case 't':
			return c.literal("true")
		case 'f':
			return c.literal("false")
		case 'n':
			return c.literal("null")
		default:
			return c.number()
		}
	}
}

// name reads the name of a member and its colon.
func (c *compactor) name() bool {
	if next, _ := c.peek(); next != '"' || !c.string() {
		return false
	}
	next, _ := c.peek()
	c.pos++
	return next == ':'
}

func (c *compactor) push(object bool) {
	bit := uint64(1) << (c.depth % 64)
	c.objects[c.depth/64] &^= bit
	if object {
		c.objects[c.depth/64] |= bit
	}
	c.depth++
}

func (c *compactor) inObject() bool {
	return c.objects[(c.depth-1)/64]>>((c.depth-1)%64)&1 == 1
}

func (c *compactor) closer() byte {
	if c.inObject() {
		return '}'
	}
	return ']'
}

// peek skips white space and returns the byte after it, or 0 and false at the end.
func (c *compactor) peek() (byte, bool) {
	if c.pos < len(c.src) && c.src[c.pos] > ' ' {
		return c.src[c.pos], true
	}
	c.flush()
	for ; c.pos < len(c.src); c.pos++ {
		switch c.src[c.pos] {
		case ' ', '\t', '\n', '\r':
		default:
			c.copied = c.pos
			return c.src[c.pos], true
		}
	}
	c.copied = c.pos
	return 0, false
}

func (c *compactor) flush() {
	c.dst = append(c.dst, c.src[c.copied:c.pos]...)
	c.copied = c.pos
}

func (c *compactor) literal(text string) bool {
	if !bytes.HasPrefix(c.src[c.pos:], []byte(text)) {
		return false
	}
	c.pos += len(text)
	return true
}

func (c *compactor) string() bool {
	c.pos++ // the quote
	for {
		c.pos += plain(c.src[c.pos:])
		if c.pos == len(c.src) {
			return false
		}
		switch c.src[c.pos] {
		case '"':
			c.pos++
			return true
		case '\\':
			if !c.escape() {
				return false
			}
		default: // a control character
			return false
		}
	}
}

func (c *compactor) escape() bool {
	rest := c.src[c.pos+1:]
	if len(rest) == 0 {
		return false
	}
	switch rest[0] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		c.pos += 2
		return true
	case 'u':
		c.pos += 6
		return len(rest) >= 5 && isHex(rest[1]) && isHex(rest[2]) && isHex(rest[3]) && isHex(rest[4])
	}
	return false
}

func isHex(b byte) bool {
	return '0' <= b && b <= '9' || 'a' <= b|0x20 && b|0x20 <= 'f'
}

// number reads a number (RFC 8259, section 6).
func (c *compactor) number() bool {
	if c.at() == '-' {
		c.pos++
	}
	if c.at() == '0' {
		c.pos++
	} else if !c.digits() {
		return false
	}
	if c.at() == '.' {
		c.pos++
		if !c.digits() {
			return false
		}
	}
	if c.at()|0x20 == 'e' {
		c.pos++
		if sign := c.at(); sign == '+' || sign == '-' {
			c.pos++
		}
		return c.digits()
	}
	return true
}

// at returns the next byte, or 0 at the end, which no token contains.
func (c *compactor) at() byte {
	if c.pos < len(c.src) {
		return c.src[c.pos]
	}
	return 0
}

func (c *compactor) digits() bool {
	start := c.pos
	for c.pos < len(c.src) && '0' <= c.src[c.pos] && c.src[c.pos] <= '9' {
		c.pos++
	}
	return c.pos > start
}
