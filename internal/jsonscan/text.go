package jsonscan

import (
	"bytes"
	"errors"
	"iter"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// ErrNotString: a value is not a string.
var ErrNotString = errors.New("value is not a string")

// Unquote returns the text of a JSON string, which must be valid JSON. Invalid UTF-8 is
// kept; an escaped unpaired surrogate becomes U+FFFD. The error is [ErrNotString].
func Unquote(b []byte) (string, error) {
	if len(b) < 2 || b[0] != '"' {
		return "", ErrNotString
	}
	b = b[1 : len(b)-1]
	i := bytes.IndexByte(b, '\\')
	if i < 0 {
		return string(b), nil
	}
	out := append(make([]byte, 0, len(b)), b[:i]...)
	for i < len(b) {
		if b[i] != '\\' {
			out = append(out, b[i])
			i++
			continue
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
	return string(out), nil
}

// Halved reports whether a JSON string has an escaped unpaired surrogate, for which its text has
// U+FFFD.
func Halved(quoted []byte, text string) bool {
	const replacement = "\uFFFD"
	return strings.Contains(text, replacement) &&
		!bytes.Contains(quoted, []byte(replacement)) && !bytes.Contains(bytes.ToLower(quoted), []byte(`\ufffd`))
}

// hex4 returns the value of four hexadecimal digits.
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

// Members yields the names, with quotes and escapes, and the values of an object, which
// must be valid JSON, in order. It yields nothing for any other type.
func Members(object []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		i := skipSpace(object, 0)
		if i == len(object) || object[i] != '{' {
			return
		}
		var v value
		next := func() []byte {
			i = skipSpace(object, i)
			v.reset()
			n, _ := v.scan(object[i:]) // it is valid
			i += n
			return object[i-n : i]
		}
		for {
			i = skipSpace(object, i+1) // after '{' or ','
			if object[i] == '}' {
				return
			}
			name := next()
			i = skipSpace(object, i) + 1 // after ':'
			if !yield(name, next()) {
				return
			}
			if i = skipSpace(object, i); object[i] == '}' {
				return
			}
		}
	}
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && space(b[i]) {
		i++
	}
	return i
}

// Elements yields the elements of an array, which must be valid JSON. It yields nothing
// for any other type.
func Elements(array []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		i := skipSpace(array, 0)
		if i == len(array) || array[i] != '[' {
			return
		}
		var v value
		for {
			i = skipSpace(array, i+1) // after '[' or ','
			if array[i] == ']' {
				return
			}
			v.reset()
			n, _ := v.scan(array[i:]) // it is valid
			if !yield(array[i : i+n]) {
				return
			}
			if i = skipSpace(array, i+n); array[i] == ']' {
				return
			}
		}
	}
}
