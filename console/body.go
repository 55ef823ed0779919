package console

import (
	"encoding/hex"
	"errors"
	"io"
	"mime"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/feedctl/feedctl/internal/jsonscan"
)

// Limits for showing a body in a page, in bytes.
const (
	maxBody   = 64 << 10 // of the body itself; no more of it is kept in memory
	maxMarkup = 60 << 10 // of the HTML
	maxHex    = 8 << 10  // of the body in hexadecimal
)

// The forms in which a body is shown.
const (
	asJSON = "json"
	asText = "text"
	asHex  = "hex"
)

// A bodyView is the beginning of a body, as text.
type bodyView struct {
	As   string // its form
	Text string
	All  bool  // Text shows the whole body
	Size int64 // of the body, in bytes; -1 if it is not known
	// Invalid means that the body should be JSON, and is not.
	Invalid bool
}

// viewBody returns the view of a body, given its beginning or all of it. Its last parameter is the form
// that was asked for, or "" for the form that suits the media type and the bytes.
func viewBody(start []byte, size int64, mediaType, as string) bodyView {
	v := bodyView{As: as, Size: size}
	if as != asJSON && as != asText && as != asHex {
		v.As = usualForm(start, mediaType)
	}
	whole, left := int64(len(start)) == size, room(maxMarkup)
	if v.As == asJSON {
		text, err := jsonscan.AppendIndent(nil, start, maxMarkup)
		if err == nil || !whole && errors.Is(err, io.ErrUnexpectedEOF) {
			v.Text, v.All = left.show(text)
			v.All = v.All && whole && len(text) < maxMarkup
			return v
		}
		v.As, v.Invalid = asText, true
	}
	if v.As == asHex {
		part := start[:min(len(start), maxHex)]
		v.Text, v.All = left.show([]byte(hex.Dump(part)))
		v.All = v.All && int64(len(part)) == size
		return v
	}
	v.Text, v.All = left.show(start)
	v.All = v.All && whole
	return v
}

// usualForm returns the form for a body of a media type.
func usualForm(start []byte, mediaType string) string {
	mediaType, _, _ = mime.ParseMediaType(mediaType) // "" if it is not valid
	kind, subtype, _ := strings.Cut(mediaType, "/")
	switch {
	case subtype == "json" || strings.HasSuffix(subtype, "+json"):
		return asJSON
	case kind == "text" || subtype == "xml" || strings.HasSuffix(subtype, "+xml") || printable(start):
		return asText
	}
	return asHex
}

// printable reports whether text is UTF-8 without control characters. Its last character may be cut off.
func printable(text []byte) bool {
	for len(text) > 0 && utf8.FullRune(text) {
		c, size := utf8.DecodeRune(text)
		if c == utf8.RuneError && size == 1 || unicode.IsControl(c) && !unicode.IsSpace(c) {
			return false
		}
		text = text[size:]
	}
	return true
}
