// Package jsonptr extracts a value from a JSON text by its JSON Pointer (RFC 6901),
// without decoding the rest of the text.
package jsonptr

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Causes of errors, to be matched with [errors.Is].
var (
	// ErrSyntax: the pointer is not well-formed.
	ErrSyntax = errors.New("invalid JSON Pointer")
	// ErrJSON: the document is not JSON in UTF-8, or has an unpaired surrogate.
	ErrJSON = errors.New("not valid JSON")
	// ErrNotFound: the document has no value at the pointer.
	ErrNotFound = errors.New("no such value")
	// ErrType: the value is null, an object or an array.
	ErrType = errors.New("value is not a string, a number or a boolean")
)

// A Pointer is a compiled JSON Pointer. The zero Pointer is "", the whole
// document.
type Pointer struct {
	text   string
	tokens []string
}

// Compile parses a JSON Pointer in its plain form, such as "/id" or
// "/a~1b/0". The URI fragment form ("#/id") is not supported.
func Compile(pointer string) (Pointer, error) {
	if pointer == "" {
		return Pointer{}, nil
	}
	if pointer[0] != '/' {
		return Pointer{}, fmt.Errorf("%w %q: must begin with \"/\"", ErrSyntax, pointer)
	}
	tokens := strings.Split(pointer[1:], "/")
	for i, token := range tokens {
		for j := range len(token) {
			if token[j] == '~' && (j+1 == len(token) || token[j+1] != '0' && token[j+1] != '1') {
				return Pointer{}, fmt.Errorf("%w %q: \"~\" must be followed by 0 or 1", ErrSyntax, pointer)
			}
		}
		// The order matters: "~01" is "~1", not "/" (RFC 6901, section 4).
		tokens[i] = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
	}
	return Pointer{text: pointer, tokens: tokens}, nil
}

// Text returns the argument of [Compile].
func (p Pointer) Text() string { return p.text }

// Tokens returns the unescaped reference tokens of the pointer, which is empty for the
// whole document. The caller must not modify the slice.
func (p Pointer) Tokens() []string { return p.tokens }

// String returns the value at p as text: a string without quotes and escapes, a number
// as written, "true" or "false". Of members with the same name, the last one is used.
func (p Pointer) String(doc []byte) (string, error) {
	if !json.Valid(doc) {
		return "", ErrJSON
	}
	return p.Lookup(doc)
}

// Lookup is [Pointer.String] for a document that is known to be valid JSON,
// for callers that look up more than one pointer. The result for any other
// document is unspecified.
func (p Pointer) Lookup(doc []byte) (string, error) {
	text, err := scalar(p.find(doc))
	if err != nil {
		return "", fmt.Errorf("look up %q: %w", p.text, err)
	}
	return text, nil
}

// Raw returns the JSON text of the value at p, of any type, as a subslice of doc, or nil
// if there is none. The document must be valid JSON; the result for any other is
// unspecified.
func (p Pointer) Raw(doc []byte) []byte {
	value := p.find(doc)
	if len(value) == 0 {
		return nil
	}
	return value[:skip(value, 0)]
}

// find returns the rest of doc from the value at p on, or an empty slice.
func (p Pointer) find(doc []byte) []byte {
	value := doc[space(doc, 0):]
	for _, token := range p.tokens {
		switch {
		case len(value) > 0 && value[0] == '{':
			value = member(value, token)
		case len(value) > 0 && value[0] == '[':
			value = element(value, token)
		default:
			return nil
		}
	}
	return value
}

// member returns the value of the last member with the name, or nil. object begins with
// "{".
func member(object []byte, name string) []byte {
	var found []byte
	for i := space(object, 1); i < len(object) && object[i] == '"'; {
		colon := space(object, skip(object, i))
		start := space(object, colon+1)
		if start >= len(object) {
			break
		}
		end := skip(object, start)
		if matches(object[i:colon], name) {
			found = object[start:end]
		}
		// Skip the comma or the closing brace.
		i = space(object, space(object, end)+1)
	}
	return found
}

// element returns the element with the index, or nil. array begins with "[".
func element(array []byte, index string) []byte {
	n := 0
	for _, c := range []byte(index) {
		if c < '0' || c > '9' || n > len(array) {
			return nil
		}
		n = n*10 + int(c-'0')
	}
	if index == "" || len(index) > 1 && index[0] == '0' {
		return nil // RFC 6901, section 4: no leading zeros
	}
	for i := space(array, 1); i < len(array) && array[i] != ']'; n-- {
		end := skip(array, i)
		if n == 0 {
			return array[i:end]
		}
		comma := space(array, end)
		if comma >= len(array) || array[comma] != ',' {
			break
		}
		i = space(array, comma+1)
	}
	return nil
}

// scalar returns the text of the value at the start of b.
func scalar(b []byte) (string, error) {
	if len(b) == 0 {
		return "", ErrNotFound
	}
	b = b[:skip(b, 0)]
	switch {
	case b[0] == '"':
		return unquote(b)
	case b[0] == '{' || b[0] == '[' || string(b) == "null":
		return "", ErrType
	}
	return string(b), nil
}

// matches reports whether the quoted string, followed by optional white space, is name.
func matches(quoted []byte, name string) bool {
	end := skip(quoted, 0)
	if end-2 == len(name) && string(quoted[1:end-1]) == name {
		return true
	}
	if bytes.IndexByte(quoted[:end], '\\') < 0 {
		return false
	}
	text, err := unquote(quoted[:end])
	return err == nil && text == name
}

// unquote decodes a JSON string. Invalid UTF-8 and unpaired surrogates are errors, since
// replacing them would make different strings equal.
func unquote(quoted []byte) (string, error) {
	if len(quoted) < 2 || !utf8.Valid(quoted) {
		return "", fmt.Errorf("%w: string %q is not UTF-8", ErrJSON, quoted)
	}
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1]), nil
	}
	var text string
	if err := json.Unmarshal(quoted, &text); err != nil {
		return "", fmt.Errorf("%w: %w", ErrJSON, err)
	}
	if strings.ContainsRune(text, utf8.RuneError) && halved(quoted) {
		return "", fmt.Errorf("%w: string %s has half of a surrogate pair, which is not a character", ErrJSON, quoted)
	}
	return text, nil
}

// halved reports whether a JSON string has an escaped unpaired surrogate (RFC 8259,
// section 8.2), which encoding/json replaces.
func halved(quoted []byte) bool {
	for i := 0; i < len(quoted); i++ {
		if quoted[i] != '\\' {
			continue
		}
		i++
		if quoted[i] != 'u' {
			continue
		}
		first, second := codeUnit(quoted[i+1:]), rune(0)
		i += 4
		if !utf16.IsSurrogate(first) {
			continue
		}
		if bytes.HasPrefix(quoted[i+1:], []byte(`\u`)) {
			second = codeUnit(quoted[i+3:])
			i += 6
		}
		if utf16.DecodeRune(first, second) == utf8.RuneError {
			return true
		}
	}
	return false
}

// codeUnit reads the four digits of an escape.
func codeUnit(digits []byte) rune {
	var unit [2]byte
	_, _ = hex.Decode(unit[:], digits[:4]) // known to be valid
	return rune(binary.BigEndian.Uint16(unit[:]))
}

// space returns the index of the first byte from i on that is not white
// space, at most len(b).
func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\r' || b[i] == '\n') {
		i++
	}
	return min(i, len(b))
}

// skip returns the index after the value that begins at i, at most len(b). The index i
// must be less than len(b). Nested values need no stack: skip counts the brackets outside
// strings.
func skip(b []byte, i int) int {
	depth := 0
	for start := i; i < len(b); i++ {
		switch b[i] {
		case '"':
			for i++; i < len(b) && b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
			if depth == 0 {
				return min(i+1, len(b))
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			} else if depth < 0 {
				return max(i, start+1) // the end of the enclosing value
			}
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 && i > start {
				return i
			}
		}
	}
	return len(b)
}
