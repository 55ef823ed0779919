package jsonscan

import "fmt"

// maxDepth limits the nesting of arrays and objects, as in encoding/json.
const maxDepth = 10000

// A state determines what may come next in a value.
type state uint8

const (
	beforeValue state = iota
	beforeValueOrEnd
	beforeKeyOrEnd
	beforeKey
	beforeColon
	afterValue // after a value in an array or object
	inString
	inEscape
	inHex
	inLiteral
	afterMinus
	afterZero
	inInteger
	afterPoint
	inFraction
	afterE
	afterESign
	inExponent
	ended
)

// A value is a parser of one JSON value, which may arrive in pieces.
type value struct {
	state state
	key   bool   // whether the string is the name of a member
	hex   int    // how many digits of a \u are still missing
	rest  string // of a literal
	lines bool   // whether the value must be on one line
	// compact makes scan stop before white space outside strings, and limits the nesting to
	// MaxDepth.
	compact bool
	stack   []byte // of '[' and '{'
}

func (v *value) reset() { *v = value{stack: v.stack[:0], lines: v.lines} }

// scan returns the number of bytes of b that belong to the value. Once v.state is ended,
// the value is complete.
func (v *value) scan(b []byte) (int, error) {
	i := 0
	for i < len(b) && v.state != ended {
		c := b[i]
		if c <= ' ' && v.state <= afterValue && space(c) && (c != '\n' || !v.lines) {
			if v.compact {
				return i, nil
			}
			i++
			continue
		}
		switch v.state {
		case inString:
			if i += plain(b[i:]); i == len(b) {
				return i, nil
			}
			switch {
			case b[i] == '\\':
				v.state = inEscape
			case b[i] != '"':
				return i, fmt.Errorf("control character %#02x in a string", b[i])
			case v.key:
				v.state = beforeColon
			default:
				v.end()
			}
		case inEscape, inHex:
			if !v.escape(c) {
				return i, fmt.Errorf("invalid escape %q in a string", c)
			}
		case inLiteral:
			if c != v.rest[0] {
				return i, fmt.Errorf("invalid character %q in a literal", c)
			}
			if v.rest = v.rest[1:]; v.rest == "" {
				v.end()
			}
		case afterMinus, afterZero, inInteger, afterPoint, inFraction, afterE, afterESign, inExponent:
			n, err := v.number(b[i:])
			if i += n; err != nil {
				return i, err
			}
			continue
		case beforeColon:
			if c != ':' {
				return i, fmt.Errorf("invalid character %q after a member's name", c)
			}
			v.state = beforeValue
		case beforeKeyOrEnd, beforeKey:
			switch {
			case c == '"':
				v.state, v.key = inString, true
			case c == '}' && v.state == beforeKeyOrEnd:
				v.pop()
			default:
				return i, fmt.Errorf("invalid character %q where a member's name must be", c)
			}
		case afterValue:
			switch inside := v.stack[len(v.stack)-1]; {
			case c == ',' && inside == '{':
				v.state = beforeKey
			case c == ',':
				v.state = beforeValue
			case c == inside+2: // in ASCII, '}' and ']' are two after '{' and '['
				v.pop()
			default:
				return i, fmt.Errorf("invalid character %q after a value", c)
			}
		default: // beforeValue, beforeValueOrEnd
			if c == ']' && v.state == beforeValueOrEnd {
				v.pop()
			} else if err := v.begin(c); err != nil {
				return i, err
			}
		}
		i++
	}
	return i, nil
}

func space(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

// begin handles the first byte of a value.
func (v *value) begin(c byte) error {
	switch {
	case c == '"':
		v.state, v.key = inString, false
	case '1' <= c && c <= '9':
		v.state = inInteger
	case c == '{':
		return v.push(c, beforeKeyOrEnd)
	case c == '[':
		return v.push(c, beforeValueOrEnd)
	case c == 't':
		v.state, v.rest = inLiteral, "true"[1:]
	case c == 'f':
		v.state, v.rest = inLiteral, "false"[1:]
	case c == 'n':
		v.state, v.rest = inLiteral, "null"[1:]
	case c == '-':
		v.state = afterMinus
	case c == '0':
		v.state = afterZero
	default:
		return fmt.Errorf("invalid character %q where a value must begin", c)
	}
	return nil
}

func (v *value) push(c byte, next state) error {
	if len(v.stack) == maxDepth || v.compact && len(v.stack) == MaxDepth {
		return fmt.Errorf("nested deeper than %d", len(v.stack))
	}
	v.stack = append(v.stack, c)
	v.state = next
	return nil
}

func (v *value) pop() {
	v.stack = v.stack[:len(v.stack)-1]
	v.end()
}

// end ends a value, either the outermost one or a nested one.
func (v *value) end() {
	v.state = afterValue
	if len(v.stack) == 0 {
		v.state = ended
	}
}

// escape handles a byte of an escape, after the backslash, and reports whether the byte is valid
// there.
func (v *value) escape(c byte) bool {
	if v.state == inHex {
		if v.hex--; v.hex == 0 {
			v.state = inString
		}
		return isHex(c)
	}
	switch c {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		v.state = inString
	case 'u':
		v.state, v.hex = inHex, 4
	default:
		return false
	}
	return true
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

// number handles the bytes of b that belong to the current number, and returns how many these are.
func (v *value) number(b []byte) (int, error) {
	s := v.state
	for i, c := range b {
		if '0' <= c && c <= '9' && (s == inInteger || s == inFraction || s == inExponent) {
			continue
		}
		switch {
		case '0' <= c && c <= '9' && s != afterZero:
			switch {
			case s == afterPoint:
				s = inFraction
			case s != afterMinus:
				s = inExponent
			case c == '0':
				s = afterZero
			default:
				s = inInteger
			}
		case c == '.' && (s == inInteger || s == afterZero):
			s = afterPoint
		case (c == 'e' || c == 'E') && (s == inInteger || s == afterZero || s == inFraction):
			s = afterE
		case (c == '+' || c == '-') && s == afterE:
			s = afterESign
		case s == afterMinus || s == afterPoint || s == afterE || s == afterESign:
			return i, fmt.Errorf("invalid character %q in a number", c)
		default: // any other byte ends the number
			v.end()
			return i, nil
		}
	}
	v.state = s
	return len(b), nil
}

// atEnd reports whether the value is complete if the input ends here, as a number may be.
func (v *value) atEnd() bool {
	switch v.state {
	case afterZero, inInteger, inFraction, inExponent:
		return len(v.stack) == 0
	}
	return v.state == ended
}
