// Package jsonptr extracts a value from JSON text by its JSON Pointer (RFC 6901), without decoding the
// rest of the text.
package jsonptr

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/feedctl/feedctl/internal/jsonscan"
)

// These are the causes of errors, to be matched with [errors.Is].
var (
	// ErrSyntax means that the pointer is not well-formed.
	ErrSyntax = errors.New("invalid JSON Pointer")
	// ErrJSON means that the document is not JSON in UTF-8, or has an unpaired surrogate.
	ErrJSON = errors.New("not valid JSON")
	// ErrNotFound means that the document has no value at the pointer.
	ErrNotFound = errors.New("no such value")
	// ErrType means that the value is null, an object or an array.
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

// Tokens returns the unescaped reference tokens of the pointer; there are none for the
// whole document. The caller must not modify the slice.
func (p Pointer) Tokens() []string { return p.tokens }

// String returns the value at p as text: a string without quotes and escapes, a number as written, "true"
// or "false". If several members have the same name, the last one is used.
func (p Pointer) String(doc []byte) (string, error) {
	if !jsonscan.Valid(doc) {
		return "", ErrJSON
	}
	return p.Lookup(doc)
}

// Lookup does the same as [Pointer.String] for a document that is known to be valid JSON, such as one in
// which several pointers are looked up. The result for any other document is unspecified.
func (p Pointer) Lookup(doc []byte) (string, error) {
	text, err := scalar(p.Raw(doc))
	if err != nil {
		return "", fmt.Errorf("look up %q: %w", p.text, err)
	}
	return text, nil
}

// Raw returns the JSON text of the value at p, of any type, as a subslice of doc, or nil
// if there is none. The document must be valid JSON; the result for any other is
// unspecified.
func (p Pointer) Raw(doc []byte) []byte {
	value := bytes.Trim(doc, " \t\r\n")
	for _, token := range p.tokens {
		if len(value) > 0 && value[0] == '[' {
			value = element(value, token)
			continue
		}
		var found []byte
		for name, member := range jsonscan.Members(value) {
			if is(name, token) {
				found = member
			}
		}
		value = found
	}
	return value
}

// element returns the element of an array with the given index, or nil if there is none.
func element(array []byte, index string) []byte {
	n, err := strconv.Atoi(index)
	if err != nil || strconv.Itoa(n) != index { // RFC 6901, section 4, allows no leading zeros
		return nil
	}
	for element := range jsonscan.Elements(array) {
		if n == 0 {
			return element
		}
		n--
	}
	return nil
}

// scalar returns the text of a value.
func scalar(b []byte) (string, error) {
	switch {
	case len(b) == 0:
		return "", ErrNotFound
	case b[0] == '"':
		return unquote(b)
	case b[0] == '{' || b[0] == '[' || string(b) == "null":
		return "", ErrType
	}
	return string(b), nil
}

// is reports whether a JSON string stands for the given name.
func is(quoted []byte, name string) bool {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1:len(quoted)-1]) == name
	}
	text, err := unquote(quoted)
	return err == nil && text == name
}

// unquote decodes a JSON string. Invalid UTF-8 and unpaired surrogates are errors, since
// replacing them would make different strings equal.
func unquote(quoted []byte) (string, error) {
	if !utf8.Valid(quoted) {
		return "", fmt.Errorf("%w: string %q is not UTF-8", ErrJSON, quoted)
	}
	text, err := jsonscan.Unquote(quoted)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrJSON, err)
	}
	if jsonscan.Halved(quoted, text) {
		return "", fmt.Errorf("%w: string %s has an unpaired UTF-16 surrogate", ErrJSON, quoted)
	}
	return text, nil
}
