package couchdb

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/feedctl/feedctl/sink/internal/content"
	"github.com/feedctl/feedctl/sink/internal/jsontext"
)

// A form is how a document holds a body.
type form int

const (
	// asAttachment: the attachment "body" holds it.
	asAttachment form = iota
	// asMembers: its members are those of the document.
	asMembers
	// asBoth: servers would give its members back spelled in another way, so the
	// attachment holds it besides.
	asBoth
)

// formOf returns how a document holds a body, and the body without white space
// between its tokens, appended to buf, if it is JSON.
func formOf(buf []byte, contentType string, body []byte) (form, []byte) {
	if !content.IsJSON(contentType) {
		return asAttachment, nil
	}
	text, ok := jsontext.AppendCompact(buf, body)
	if !ok || len(text) == 0 || text[0] != '{' {
		return asAttachment, nil
	}
	s := speller{text: text, same: true, fits: true}
	s.value(true)
	switch {
	case !s.fits:
		return asAttachment, nil
	case !s.same:
		return asBoth, text
	}
	return asMembers, text
}

// A speller walks over JSON text that is valid and without white space. It finds
// out whether CouchDB and PouchDB give it back as it is spelled, and whether they
// can hold it at all.
type speller struct {
	text []byte
	pos  int
	same bool // it comes back as it is
	fits bool // a document can have these members
}

func (s *speller) value(top bool) {
	switch c := s.text[s.pos]; c {
	case '{':
		s.object(top)
	case '[':
		s.array()
	case '"':
		s.string()
	case 't', 'n':
		s.pos += len("true")
	case 'f':
		s.pos += len("false")
	default:
		s.number()
	}
}

func (s *speller) object(top bool) {
	s.pos++
	if s.text[s.pos] == '}' {
		s.pos++
		return
	}
	names := map[string]bool{}
	for {
		name := s.string()
		if names[name] || reordered(name) {
			s.same = false
		}
		names[name] = true
		if top && (strings.HasPrefix(name, "_") || name == metaMember) {
			s.fits = false
		}
		s.pos++ // the colon
		s.value(false)
		s.pos++
		if s.text[s.pos-1] == '}' {
			return
		}
	}
}

// reordered reports whether JavaScript moves a member with this name to the front,
// or does not keep it.
func reordered(name string) bool {
	_, err := strconv.ParseUint(name, 10, 64)
	return err == nil || name == "__proto__"
}

func (s *speller) array() {
	s.pos++
	if s.text[s.pos] == ']' {
		s.pos++
		return
	}
	for {
		s.value(false)
		s.pos++
		if s.text[s.pos-1] == ']' {
			return
		}
	}
}

// string returns the string at pos, decoded.
func (s *speller) string() string {
	start := s.pos
	escaped := false
	for s.pos++; s.text[s.pos] != '"'; s.pos++ {
		if s.text[s.pos] != '\\' {
			continue
		}
		escaped = true
		s.pos++
		if c := s.text[s.pos]; c == 'u' || c == '/' {
			s.same = false
		}
	}
	s.pos++
	quoted := s.text[start:s.pos]
	if !escaped {
		return string(quoted[1 : len(quoted)-1])
	}
	var decoded string
	if json.Unmarshal(quoted, &decoded) != nil || halved(quoted, decoded) || strings.ContainsRune(decoded, 0) {
		s.fits = false
	}
	return decoded
}

// halved reports whether a string had half of a surrogate pair, for which the
// decoder puts U+FFFD.
func halved(quoted []byte, decoded string) bool {
	const replacement = "\uFFFD"
	return strings.Contains(decoded, replacement) &&
		!bytes.Contains(quoted, []byte(replacement)) && !bytes.Contains(bytes.ToLower(quoted), []byte(`\ufffd`))
}

// maxDigits is how many digits a float64 keeps for sure.
const maxDigits = 15

// number looks at a number. Servers read one with a fraction or an exponent as a
// float64, and PouchDB every one; and they write the shortest text that reads the
// same.
func (s *speller) number() {
	start := s.pos
	for s.pos < len(s.text) && strings.IndexByte("+-.eE0123456789", s.text[s.pos]) >= 0 {
		s.pos++
	}
	text := string(s.text[start:s.pos])
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
