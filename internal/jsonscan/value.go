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
	afterValue // in an array or object
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
	key   bool   // the string is a member's name
	hex   int    // digits that a \u still needs
	rest  string // of a literal
	lines bool   // it must be on one line
	stack []byte // of '[' and '{'
}

func (v *value) reset() { *v = value{stack: v.stack[:0], lines: v.lines} }

// plain holds the bytes that stand for themselves in a string.
var plain = func() (table [256]bool) {
	for c := range table {
		table[c] = c >= 0x20 && c != '"' && c != '\\'
	}
	return table
}()

// scan returns the number of bytes of b that belong to the value. Once v.state is ended,
// the value is complete.
func (v *value) scan(b []byte) (int, error) {
	for i := 0; i < len(b); {
		switch c := b[i]; v.state {
		case inString:
			for plain[b[i]] {
				if i++; i == len(b) {
					return i, nil
				}
			}
			switch b[i] {
			case '"':
				v.endString()
			case '\\':
				v.state = inEscape
			default:
				return i, fmt.Errorf("control character %#02x in a string", b[i])
			}
			i++
		case inEscape, inHex:
			if !v.escape(c) {
				return i, fmt.Errorf("invalid escape %q in a string", c)
			}
			i++
		case inLiteral:
			if c != v.rest[0] {
				return i, fmt.Errorf("invalid character %q in a literal", c)
			}
			i++
			if v.rest = v.rest[1:]; v.rest == "" {
				v.end()
			}
		case afterMinus, afterZero, inInteger, afterPoint, inFraction, afterE, afterESign, inExponent:
			switch next, ok := number(v.state, c); {
			case ok:
				v.state = next
				i++
			case v.state == afterMinus || v.state == afterPoint || v.state == afterE || v.state == afterESign:
				return i, fmt.Errorf("invalid character %q in a number", c)
			default:
				v.end() // what follows a number ends it
			}
		default:
			if space(c) && (c != '\n' || !v.lines) {
				i++
				continue
			}
			if err := v.structure(c); err != nil {
				return i, err
			}
			i++
		}
		if v.state == ended {
			return i, nil
		}
	}
	return len(b), nil
}

func space(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

// structure takes a byte outside of strings, numbers and literals.
func (v *value) structure(c byte) error {
	switch v.state {
	case beforeValueOrEnd:
		if c == ']' {
			v.pop()
			return nil
		}
		return v.begin(c)
	case beforeValue:
		return v.begin(c)
	case beforeKeyOrEnd, beforeKey:
		if c == '}' && v.state == beforeKeyOrEnd {
			v.pop()
			return nil
		}
		if c == '"' {
			v.state, v.key = inString, true
			return nil
		}
		return fmt.Errorf("invalid character %q where a member's name must be", c)
	case beforeColon:
		if c == ':' {
			v.state = beforeValue
			return nil
		}
		return fmt.Errorf("invalid character %q after a member's name", c)
	}
	inside := v.stack[len(v.stack)-1]
	switch {
	case c == ',' && inside == '[':
		v.state = beforeValue
	case c == ',':
		v.state = beforeKey
	case c == ']' && inside == '[', c == '}' && inside == '{':
		v.pop()
	default:
		return fmt.Errorf("invalid character %q after a value", c)
	}
	return nil
}

// begin takes the first byte of a value.
func (v *value) begin(c byte) error {
	switch {
	case c == '"':
		v.state, v.key = inString, false
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
	case '1' <= c && c <= '9':
		v.state = inInteger
	default:
		return fmt.Errorf("invalid character %q where a value must begin", c)
	}
	return nil
}

func (v *value) push(c byte, next state) error {
	if len(v.stack) == maxDepth {
		return fmt.Errorf("nested deeper than %d", maxDepth)
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

func (v *value) endString() {
	if v.key {
		v.state = beforeColon
		return
	}
	v.end()
}

// escape takes a byte after a backslash, and reports whether it may be there.
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

// number returns the state after a byte in a number, if the byte is allowed.
func number(s state, c byte) (state, bool) {
	digit := '0' <= c && c <= '9'
	switch s {
	case afterMinus:
		if c == '0' {
			return afterZero, true
		}
		return inInteger, digit
	case inInteger, afterZero:
		switch {
		case digit && s == inInteger:
			return inInteger, true
		case c == '.':
			return afterPoint, true
		case c == 'e' || c == 'E':
			return afterE, true
		}
	case afterPoint, inFraction:
		if s == inFraction && (c == 'e' || c == 'E') {
			return afterE, true
		}
		return inFraction, digit
	case afterE:
		if c == '+' || c == '-' {
			return afterESign, true
		}
		return inExponent, digit
	case afterESign, inExponent:
		return inExponent, digit
	}
	return s, false
}

// atEnd reports whether the value is complete if the input ends, like a number.
func (v *value) atEnd() bool {
	switch v.state {
	case afterZero, inInteger, inFraction, inExponent:
		return len(v.stack) == 0
	}
	return v.state == ended
}
