package jsonscan

import (
	"bytes"
	"errors"
	"iter"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// errNotString means that a value is not a string.
var errNotString = errors.New("value is not a string")

// Unquote returns the text of a JSON string. b must be valid JSON; the only error is errNotString. Invalid
// UTF-8 is kept, and an escaped unpaired surrogate becomes U+FFFD.
func Unquote(b []byte) (string, error) {
	text, _, err := unquote(b)
	return text, err
}

// Halved reports whether a JSON string has an escaped unpaired surrogate. text must be the result of Unquote,
// which has U+FFFD in place of the surrogate.
func Halved(quoted []byte, text string) bool {
	if !strings.ContainsRune(text, utf8.RuneError) {
		return false
	}
	_, halved, _ := unquote(quoted)
	return halved
}

func unquote(b []byte) (text string, halved bool, err error) {
	if len(b) < 2 || b[0] != '"' {
		return "", false, errNotString
	}
	b = b[1 : len(b)-1]
	i := bytes.IndexByte(b, '\\')
	if i < 0 {
		return string(b), false, nil
	}
	out := append(make([]byte, 0, len(b)), b[:i]...)
	for i < len(b) {
		if b[i] != '\\' {
			out = append(out, b[i])
			i++
			continue
		}
		if i+1 == len(b) || b[i+1] == 'u' && i+6 > len(b) {
			return "", false, errNotString // the string is not valid
		}
		switch c := b[i+1]; c {
		case 'u':
			r := hex4(b[i+2:])
			i += 6
			if utf16.IsSurrogate(r) {
				pair := rune(utf8.RuneError)
				if i+6 <= len(b) && b[i] == '\\' && b[i+1] == 'u' {
					pair = utf16.DecodeRune(r, hex4(b[i+2:]))
				}
				if r = pair; pair != utf8.RuneError {
					i += 6
				} else {
					halved = true
				}
			}
			out = utf8.AppendRune(out, r)
			continue
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		default: // the byte itself
			out = append(out, c)
		}
		i += 2
	}
	return string(out), halved, nil
}

func hex4(b []byte) rune {
	var r rune
	for _, c := range b[:4] {
		switch {
		case c >= 'a':
			c -= 'a' - 10
		case c >= 'A':
			c -= 'A' - 10
		default:
			c -= '0'
		}
		r = r<<4 | rune(c)
	}
	return r
}

// Members yields the name, with quotes and escapes, and the value of each member of an object, in order. It
// stops at the first place where the JSON is not valid, and yields nothing for a value of another type.
func Members(object []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		e := elements{rest: object}
		for more := e.enter('{'); more; more = e.skip(',') {
			name := e.next()
			if !e.skip(':') || len(name) == 0 || name[0] != '"' {
				return
			}
			if value := e.next(); value == nil || !yield(name, value) {
				return
			}
		}
	}
}

// Elements yields the elements of an array. It stops at the first place where the JSON is not valid, and
// yields nothing for a value of another type.
func Elements(array []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		e := elements{rest: array}
		for more := e.enter('['); more; more = e.skip(',') {
			if value := e.next(); value == nil || !yield(value) {
				return
			}
		}
	}
}

// elements holds the elements of an object or array that have not been read.
type elements struct{ rest []byte }

// skip skips white space and the byte c after it. It returns false, and skips nothing, if the next byte is
// another one.
func (e *elements) skip(c byte) bool {
	i := skipSpace(e.rest, 0)
	if i == len(e.rest) || e.rest[i] != c {
		return false
	}
	e.rest = e.rest[i+1:]
	return true
}

// enter skips the beginning of an object ('{') or array ('['), and reports whether an element or member
// follows.
func (e *elements) enter(kind byte) bool {
	return e.skip(kind) && !e.skip(kind+2) // in ASCII, '}' and ']' are two after '{' and '['
}

// next removes the next value from rest and returns it, or nil if it is not valid.
func (e *elements) next() []byte {
	start := skipSpace(e.rest, 0)
	end := skipValue(e.rest, start)
	if end < 0 {
		return nil
	}
	found := e.rest[start:end]
	e.rest = e.rest[end:]
	return found
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && space(b[i]) {
		i++
	}
	return i
}
