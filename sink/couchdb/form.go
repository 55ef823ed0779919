package couchdb

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/feedctl/feedctl/internal/jsonscan"
	"github.com/feedctl/feedctl/sink/internal/content"
)

// A form is how a document holds a body.
type form int

const (
	asAttachment form = iota // as the attachment "body"
	asMembers                // as the members of the document
	asBoth                   // as both, because servers would return the members in another notation
)

// formOf returns how a document holds a body, and the body without white space
// between its tokens, appended to buf, if it is JSON.
func formOf(r *jsonscan.Reader, buf []byte, contentType string, body []byte) (form, []byte) {
	if !content.IsJSON(contentType) {
		return asAttachment, nil
	}
	text, ok := jsonscan.AppendCompact(buf, body)
	if !ok || len(text) == 0 || text[0] != '{' {
		return asAttachment, nil
	}
	r.Reset(bytes.NewReader(text))
	s := formatter{json: r, longest: len(text), same: true, fits: true}
	if err := s.value(true); err != nil || !s.fits {
		return asAttachment, nil
	}
	if !s.same {
		return asBoth, text
	}
	return asMembers, text
}

// A formatter reads JSON to determine whether CouchDB and PouchDB return it in the same
// notation, and whether they can store it at all.
type formatter struct {
	json    *jsonscan.Reader
	longest int  // maximum size of a value, in bytes
	same    bool // it is returned unchanged
	fits    bool // a document can have these members
}

func (s *formatter) value(top bool) error {
	c, err := s.json.Peek()
	switch {
	case err != nil:
		return err
	case c == '[':
		return s.json.Array(func() error { return s.value(false) })
	case c == '{':
		names := map[string]bool{}
		return s.json.Object(func(quoted []byte) error {
			name := s.string(quoted)
			if names[name] || reordered(name) {
				s.same = false
			}
			names[name] = true
			if top && (strings.HasPrefix(name, "_") || name == metaMember) {
				s.fits = false
			}
			return s.value(false)
		})
	}
	text, _, err := s.json.Value(s.longest)
	switch {
	case err != nil:
		return err
	case c == '"' && bytes.IndexByte(text, '\\') >= 0: // a string without escapes is returned unchanged
		s.string(text)
	case c == '-' || '0' <= c && c <= '9':
		s.number(string(text))
	}
	return nil
}

// reordered reports whether JavaScript moves a member with this name to the front or drops it.
func reordered(name string) bool {
	_, err := strconv.ParseUint(name, 10, 64)
	return err == nil || name == "__proto__"
}

// string checks a string, and returns it decoded.
func (s *formatter) string(quoted []byte) string {
	for i := 0; i < len(quoted); i++ {
		if quoted[i] == '\\' {
			i++
			s.same = s.same && quoted[i] != 'u' && quoted[i] != '/'
		}
	}
	text, _ := jsonscan.Unquote(quoted)
	if jsonscan.Halved(quoted, text) || strings.ContainsRune(text, 0) {
		s.fits = false
	}
	return text
}

// maxDigits is how many decimal digits a float64 always preserves.
const maxDigits = 15

// number checks a number. Servers read numbers with a fraction or an exponent as float64 (PouchDB reads all
// numbers this way), and write the shortest text with the same value.
func (s *formatter) number(text string) {
	if _, err := strconv.ParseFloat(text, 64); err != nil {
		s.fits = false // out of range
		return
	}
	digits := strings.TrimPrefix(text, "-")
	whole, fraction, hasFraction := strings.Cut(digits, ".")
	if strings.ContainsAny(text, "eE") || text == "-0" || len(whole)+len(fraction) > maxDigits ||
		hasFraction && (strings.HasSuffix(fraction, "0") || whole == "0" && strings.HasPrefix(fraction, "000")) {
		s.same = false
	}
}
